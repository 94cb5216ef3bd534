"""Writes a flat program as a script."""

from __future__ import annotations

import builtins
import re
from collections.abc import Collection, Iterable, Iterator, Sequence

from minimizer.engine.emit.layout import assemble
from minimizer.engine.outer.program import Event, OuterProgram
from minimizer.engine.program import render
from minimizer.engine.program.model import Program

WIDTH = 120
"""Columns of a line that is not broken."""
INDENT = "    "
FUNCTIONAL = re.compile(r"\btorch\.nn\.functional\.(?=\w)")


def whole(program: OuterProgram, *, title: str, script: str, data: str | None) -> str:
    """The whole program as a standalone script, compiled, or eager with the argument ``eager``.

    Args:
        program: the program.
        title: a sentence that describes it.
        script: the name of its file.
        data: the name of the data file next to it with values of inputs; None without one.
    """
    events = range(len(program.events))
    inputs = exact_inputs(program, events)
    load = []
    if data is not None and any("data[" in line for line in inputs):
        load = [f'data = torch.load(Path(__file__).with_name("{data}"), weights_only=True)']
    parts = [
        'if sys.argv[1:] == ["eager"]:\n    torch.compiler.set_stance("force_eager")',
        *setup(program, events),
        *(graph_function(program.graphs[name], name, decorated=True) for name in used_graphs(program, events)),
        "\n".join([*load, *inputs]),
        "\n".join(statements(program, events, with_source=True)),
    ]
    usage = f"python {script}          with the compiler\npython {script} eager    without"
    return assemble(f'"""{title}\n\n{usage}\n"""', parts)


def setup(program: OuterProgram, events: Iterable[int]) -> list[str]:
    """The statements before the functions of the graphs: the bodies of their higher-order operators, and settings of the compiler."""
    bodies = [statement for name in used_graphs(program, events) for statement in render.setup(program.graphs[name])]
    return [*dict.fromkeys(bodies), *program.settings]


def used_graphs(program: OuterProgram, events: Iterable[int]) -> list[str]:
    """The functions of the graphs that events call, in order of their names' numbers."""
    found = {graph for index in events if (graph := program.graph_of[index]) is not None}
    return [name for name in program.graphs if name in found]


def used_inputs(program: OuterProgram, events: Iterable[int]) -> list[str]:
    """The inputs that events read, in the order of their use in the script."""
    read = {name for index in events for name in program.events[index].reads}
    return [name for name in program.inputs if name in read]


def exact_inputs(program: OuterProgram, events: Iterable[int]) -> list[str]:
    """Statements that create the inputs of events with their own values."""
    made = []
    for name in used_inputs(program, events):
        item = program.inputs[name]
        text = item.exact if item.exact is not None else f'data["{name}"]'
        made.append(f"{name} = {text}{'.requires_grad_()' if item.requires_grad else ''}")
    return made


def graph_function(program: Program, name: str, *, decorated: bool) -> str:
    """A graph as a function, compiled if ``decorated``."""
    compiled = program.as_compiled()
    options = compile_options(compiled)
    decorator = f"@torch.compile({options})\n" if options else "@torch.compile\n"
    text = FUNCTIONAL.sub("F.", render.function(compiled, name))
    return (decorator if decorated else "") + text.rstrip()


def compile_options(program: Program) -> str:
    """The arguments of ``torch.compile``, as source text."""
    return ", ".join(f"{key}={value}" for key, value in program.compile_kwargs)


def statements(program: OuterProgram, events: Collection[int], *, with_source: bool = False) -> Iterator[str]:
    """The events as lines of a script, in blocks by context.

    ``with_source``: with a comment before the events of each user's line.
    """
    return (line for line, _ in placed_statements(program, events, with_source=with_source))


def placed_statements(
    program: OuterProgram, events: Collection[int], *, with_source: bool = False
) -> Iterator[tuple[str, int | None]]:
    """The same lines, each with the index of its event; None for lines of contexts and comments."""
    around: Sequence[str] = ()
    source: tuple[str, int, str] | None = None
    for index in sorted(events):
        event = program.events[index]
        is_new = with_source and event.source is not None and event.source != source
        shared = _shared(around, event.under)
        if is_new or len(shared) < len(around):
            around = shared
        if is_new and event.source is not None:
            source, around = event.source, ()
            yield f"# {source[0]}:{source[1]}: {source[2]}", None
        for depth in range(len(around), len(event.under)):
            yield f"{INDENT * depth}with {event.under[depth]}:", None
        around = event.under
        is_end = index == len(program.events) - 1  # its exception may have ended the script
        yield from ((INDENT * len(around) + line, index) for line in ([event.code] if is_end else _lines(event)))


def step_code(event: Event) -> str:
    """An event as a statement with its contexts; exceptions are not caught."""
    lines = [event.code]
    for context in reversed(event.under):
        lines = [f"with {context}:", *(INDENT + line for line in lines)]
    return "\n".join(lines)


def _lines(event: Event) -> list[str]:
    if not event.raises:
        return [event.code]
    known = getattr(builtins, event.raises, None)
    name = event.raises if isinstance(known, type) and issubclass(known, BaseException) else "Exception"
    return [f"with contextlib.suppress({name}):", INDENT + event.code]


def _shared(one: Sequence[str], other: Sequence[str]) -> tuple[str, ...]:
    """The common prefix of both contexts."""
    count = next((i for i, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))
    return tuple(one[:count])
