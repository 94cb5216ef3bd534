"""The idioms of findings that are figures: measure both sides, and assert a factor between them beyond the noise."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Mapping
from dataclasses import replace

from minimizer.engine.emit.subject import WAIT_FOR_GPU, Subject
from minimizer.vocabulary import Kind

TURNS = 20
"""Turns of both sides, of which the minimum times count."""


def slow(subject: Subject) -> tuple[str, list[str], str]:
    """Times of calls in turns, so that both sides see the same load."""
    fn, compiled, times = (subject.helpers[name] for name in ("fn", "compiled", "times"))
    timed = subject.call(fn) if not subject.waits else f"({subject.call(fn)}, {WAIT_FOR_GPU})"
    call = f"timeit.timeit(lambda: {timed}, number={subject.details['calls']})"
    measured = [
        f"{compiled} = {subject.compiled}",
        subject.call(compiled),
        f"{times} = [[{call} for {fn} in ({subject.eager}, {compiled})] for _ in range({TURNS})]",
        f"expected, actual = map(min, zip(*{times}))",
    ]
    return "", measured, "expected"


def memory(subject: Subject) -> tuple[str, list[str], str]:
    """Bytes of all storages that autograd saves in a call, except those of inputs."""
    fn, out, saved, kept = (subject.helpers[name] for name in ("fn", "out", "saved", "kept"))
    given = ", ".join(item.name for item in subject.program.inputs if item.meta is not None)
    definition = f"""\
def {kept}({fn}):
    {saved} = {{}}

    def pack(value):
        {saved}[value.untyped_storage().data_ptr()] = value.untyped_storage()
        return value

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda value: value):
        {subject.call(fn)}
    for {out} in [{given}]:
        {saved}.pop({out}.untyped_storage().data_ptr(), None)
    return sum({out}.nbytes() for {out} in {saved}.values())
"""
    return definition, [f"expected, actual = {kept}({subject.eager}), {kept}({subject.compiled})"], "expected"


def compile_time(subject: Subject) -> tuple[str, list[str], str]:
    """Seconds by which a first compiled call takes longer than a second, compared with a single operator; no cache is
    read.
    """
    fn, seconds = subject.helpers["fn"], subject.helpers["seconds"]
    small = 'torch.ones(8, device="cuda")' if subject.waits else "torch.ones(8)"
    single = f"{replace(subject, function='torch.neg').compiled}({small})"
    definition = f"""\
def {seconds}({fn}):
    torch._dynamo.reset()
    first, second = (timeit.timeit({fn}, number=1) for _ in range(2))
    return first - second
"""
    measured = [
        "torch._inductor.config.force_disable_caches = True",
        f"{single}  # starts the compiler",
        f"expected = {seconds}(lambda: {single})",
        f"actual = {seconds}(lambda: {subject.call(subject.compiled)})",
    ]
    return definition, measured, "max(expected, 0.1)"


COSTS: Mapping[Kind, Callable[[Subject], tuple[str, list[str], str]]] = {
    Kind.SLOW: slow,
    Kind.MEMORY: memory,
    Kind.COMPILE_TIME: compile_time,
}
"""For each kind: a definition, the statements that bind ``expected`` and ``actual``, and the base of the factor on
``actual``.
"""
FORMATS: Mapping[Kind, str] = {Kind.SLOW: ":.3g", Kind.MEMORY: ":,", Kind.COMPILE_TIME: ":.1f"}
"""How the figures are written: seconds, or bytes."""


def write(kind: Kind, subject: Subject, guard: Callable[..., str]) -> str:
    """The statements below the function; ``guard`` wraps those in ``try`` that may fail for reasons of the machine."""
    definition, measured, base = COSTS[kind](subject)
    shown = "{expected=" + FORMATS[kind] + "}, {actual=" + FORMATS[kind] + "}"
    measures = guard(*subject.settings, *subject.inputs, *measured)
    asserted = f'assert actual <= {subject.details["times"]:g} * {base}, f"{shown}"\n'
    return "\n".join(filter(None, [textwrap.dedent(definition), measures, asserted]))
