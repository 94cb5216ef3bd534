"""Runs in the child: the trace of a script, and a flat program side by side."""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import dataclass, replace
from pathlib import Path

from minimizer.engine.budget.patience import NOTED_SHARE
from minimizer.engine.child.executor import Executor
from minimizer.engine.child.outcome import Ending, Outcome
from minimizer.engine.child.traced import Parting, Sides
from minimizer.engine.child.trouble import AtFault
from minimizer.engine.outer.program import BACKWARD, OuterProgram, parse
from minimizer.engine.outer.slices import direct_needs, read_later, watched
from minimizer.engine.outer.write import (
    compile_options,
    exact_inputs,
    graph_function,
    setup,
    step_code,
    used_graphs,
)
from minimizer.engine.survey.prelude import with_prelude
from minimizer.errors import BudgetExceeded, ChildFailed
from minimizer.inside.questions import SidesRequest, SidesStep, TraceRequest

MOST_EVENTS = 20_000
"""Most events of a program: a script is a straight line of them, and thousands of training steps show nothing beyond a
few.
"""
MOST_BYTES = 256 << 20
"""Bytes of inputs that a trace keeps: mostly the weights of a model."""
IMPORTS = (
    "import contextlib\nimport functools\nimport math\nimport operator\nimport torch\nimport torch.nn.functional as F\n"
)

EVENT, COMPILED = "event", "compiled"
"""Words of the child's phases: the current event, and the running side."""
SIDES = {COMPILED: "in compiled code", "compare": "in our comparison"}

NAMELESS = (
    "is compiled by a backend that the script gives no name, or not by one that can be told from others in its text"
)
CUDA_GRAPHS = {"reduce-overhead", "max-autotune"}
"""Modes of ``torch.compile`` in which a program is not run side by side."""


@dataclass(frozen=True)
class Tracing:
    """A completed trace: how the script ended, and its program; None without one. ``file``: values of inputs.

    ``why_not``: why there is none, if not because of how the script ended.
    """

    outcome: Outcome
    program: OuterProgram | None
    file: Path
    why_not: str = ""


def trace(executor: Executor, script: Path, args: Sequence[str], *, timeout: float) -> Tracing:
    """Trace a script in the child.

    Raises:
        ChildFailed: the trace is malformed.
        GraphTooLarge: a graph has too many nodes.
    """
    file = executor.place.folder("trace") / "inputs.pt"
    request = TraceRequest(
        script=str(script),
        args=args,
        file=str(file),
        events=MOST_EVENTS,
        bytes=MOST_BYTES,
        seconds=NOTED_SHARE * timeout,
    )
    (outcome,) = executor.judge([request], timeout=timeout)
    if outcome.trace is None:
        return Tracing(outcome, None, file)
    program, settings = parse(outcome.trace), outcome.trace.opaque_settings
    graphs = {}
    for name, graph in program.graphs.items():
        is_inline = name in program.inline
        graphs[name] = with_prelude(graph, script, settings, has_inline_backend=is_inline)
        if is_inline and "backend" not in dict(graphs[name].compile_kwargs):
            return Tracing(outcome, None, file, why_not=f"{name.replace('_', ' ')} {NAMELESS}")
    return Tracing(outcome, replace(program, graphs=graphs), file)


def side_by_side(
    executor: Executor, program: OuterProgram, file: Path, *, timeout: float, checked: Set[int] = frozenset()
) -> Outcome:
    """Run a program side by side in the child; if its ``sides`` are missing, `sides_of` derives the event from the
    ``phase``.

    ``checked``: the events that a failing check of the script's reads.
    """
    events = range(len(program.events))
    steps = [
        SidesStep(
            step_code(event),
            event.values,
            graph,
            event.kind == BACKWARD,
            sorted(direct),
            bool(event.raises),
            event.is_setting,
            event.draws,
            index in checked,
            watched(alive, program.storages),
        )
        for index, (event, graph, direct, alive) in enumerate(
            zip(program.events, program.graph_of, direct_needs(program), read_later(program), strict=True)
        )
    ]
    graphs = {name: program.graphs[name].as_compiled() for name in used_graphs(program, events)}
    functions = [graph_function(graph, name, decorated=False) for name, graph in graphs.items()]
    inputs = exact_inputs(program, events)
    request = SidesRequest(
        setup=IMPORTS + "\n\n".join([*setup(program, events), *functions]),
        graphs={name: compile_options(graph) for name, graph in graphs.items()},
        inputs="\n".join(inputs),
        file=str(file) if any("data[" in line for line in inputs) else None,
        steps=steps,
        seconds=NOTED_SHARE * timeout,
    )
    (outcome,) = executor.judge([request], timeout=timeout)
    return outcome


def compared(
    executor: Executor, program: OuterProgram, file: Path, timeout: float, checked: Set[int] = frozenset()
) -> tuple[Sides | None, str]:
    """Where the sides of a program part, or why it could not be compared; the program is kept in any case.

    ``checked``: as for `side_by_side`.
    """
    modes = {
        value.strip("'\"") for graph in program.graphs.values() for key, value in graph.compile_kwargs if key == "mode"
    }
    if modes & CUDA_GRAPHS:
        return (
            None,
            f"mode {', '.join(sorted(modes & CUDA_GRAPHS))} runs CUDA graphs, whose memory the sides would share",
        )
    try:
        outcome = side_by_side(executor, program, file, timeout=timeout, checked=checked)
        calls = {index for index, graph in enumerate(program.graph_of) if graph is not None}
        sides = sides_of(outcome, len(program.events), calls)
    except (ChildFailed, BudgetExceeded) as error:
        return None, str(error)
    if sides is None:
        return None, why_ended(outcome)
    is_cut = any(watched(alive, program.storages) != alive for alive in read_later(program))
    return sides, "it keeps more results than can be watched" if is_cut else ""


def sides_of(outcome: Outcome, events: int, calls: Set[int] | None = None) -> Sides | None:
    """Where the two sides part among this many events; None if the program could not be run. ``calls``: the graph
    calls, if known.

    If the process died first, only a death of the compiled side counts as a parting: not one of eager, of our own
    comparison or by the machine, and no timeout.

    Raises:
        ChildFailed: it names an event that the program does not have.
    """
    if outcome.sides is not None:
        return _bounded(outcome.sides, events, calls)
    word, _, rest = outcome.phase.partition(" ")
    number, _, side = rest.partition(" ")
    if outcome.ending not in (Ending.CRASH, Ending.TIMEOUT) or word != EVENT or not number.isdecimal():
        return None
    index = int(number)
    if index >= events:
        return None
    what = f"the process died by signal {outcome.signal}" if outcome.signal else "it did not come back in time"
    if outcome.ending is Ending.CRASH and side == COMPILED and outcome.rule.fault is not AtFault.MACHINE:
        return Sides(first=Parting(event=index, own=True, what=what), ran=index)
    return Sides(ran=index, stopped=f"event {index}, {SIDES.get(side, 'in eager')}: {what}")


def _bounded(sides: Sides, events: int, calls: Set[int] | None) -> Sides:
    """The child's answer, if the program has the events that it names.

    Raises:
        ChildFailed: it does not.
    """
    partings = [one for one in (sides.first, sides.checked) if one is not None]
    named = [*(one.event for one in partings), *(one.event for one in sides.distances)]
    signed = [(one.zeros_of, one.event) for one in partings if one.zeros_of is not None]
    is_known = all(call < event and (calls is None or call in calls) for call, event in signed)
    if not is_known or any(event >= events for event in named):
        raise ChildFailed(f"the child sent where the sides part at an event that is none of the program's {events:,}")
    return sides


def why_ended(outcome: Outcome) -> str:
    """Why a run has no answer, in words."""
    if outcome.exception is not None:
        return f"{outcome.exception.root_type}: {outcome.exception.root_message}"
    if outcome.ending is Ending.TIMEOUT:
        return "the time was over"
    return f"it died by signal {outcome.signal}" if outcome.signal else str(outcome.ending)
