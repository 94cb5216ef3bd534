"""The idiom of random numbers from another distribution: the average of a figure over many runs of each side."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from minimizer.engine.emit.subject import Subject
from minimizer.engine.program.model import Program

RUNS = 100
"""Runs of each side. The trials' bound is seven standard errors of 48 runs, half of which is asserted here."""
FIGURES: Mapping[str, str] = {
    "distinct": "hash(tuple({out}.flatten().tolist()))",
    "zeros": "({out} == 0).double().mean()",
    "NaN": "{out}.isnan().double().mean()",
    "mean": "{out}.double().atan().mean()",
    "square": "{out}.double().atan().square().mean()",
    "least": "{out}.double().atan().min()",
    "largest": "{out}.double().atan().max()",
    "neighbours": "(({name} := {out}.double().atan().flatten())[1:] * {name}[:-1]).mean()",
}
"""The expression for each figure of a run, see `inside.referee.distributions.figures_of`."""


def asserts(program: Program) -> bool:
    """Whether the idiom can be written for a program of a graph: its only output is a real tensor."""
    metas = [program.metas.get(name) for name in program.outputs]
    return len(metas) == 1 and metas[0] is not None and "complex" not in metas[0].dtype


def write(subject: Subject, guard: Callable[..., str]) -> str:
    """The statements below the function; ``guard`` wraps those in ``try`` that may fail for reasons of the machine."""
    details, (fn, out, average) = subject.details, (subject.helpers[name] for name in ("fn", "out", "average"))
    written = frozenset(details.get("writes", ()))
    call = replace(subject, function=fn, copied=written).call(fn)
    each = FIGURES[details["figure"]].format(out=call, name=out)
    if details["figure"] == "distinct":
        returned, asserted = f"len({{{each} for _ in range({RUNS})}})", "2 * actual > expected"
        shown = "{expected=}, {actual=}"
    else:
        returned = f"sum(float({each}) for _ in range({RUNS})) / {RUNS}"
        asserted = f"abs(actual - expected) < {details['apart']:.1g}"
        shown = "{expected=:.3g}, {actual=:.3g}"
    definition = f"def {average}({fn}):\n    torch.manual_seed(0)\n    return {returned}\n"
    sides = f"expected, actual = {average}({subject.eager}), {average}({subject.compiled})"
    measures = guard(*subject.settings, *subject.inputs, sides)
    return "\n".join([definition, measures, f'assert {asserted}, f"{shown}"\n'])
