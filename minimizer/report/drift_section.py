"""The section on the losses of a script that trains: the verdict, a plot in Mermaid, which GitHub draws, and figures of some steps."""

from __future__ import annotations

import math
from collections.abc import Sequence

from minimizer.report.drift import Drift
from minimizer.report.health_section import in_code
from minimizer.report.model import Report
from minimizer.report.safe_markdown import block, code, folded, table
from minimizer.vocabulary import counted

MOST_POINTS, MOST_ROWS = 60, 12
NO_CURVE = ("untold", "equal")


def losses(report: Report) -> str:
    """The section; empty if no losses were compared."""
    drift = report.drift
    if drift is None:
        return ""
    if drift.verdict in NO_CURVE or not drift.at:
        return in_code(drift.what)
    line = f" of {code(f'{drift.source.file}:{drift.source.line}')}" if drift.source is not None else ""
    runs = counted(len(drift.redrawn), "run")
    caption = f"The losses{line} by step: of eager, of the compiled program, and the lowest and highest of {runs} of eager with other roundings."
    return "\n\n".join(filter(None, [in_code(drift.what), caption, plot(drift), folded("Figures", _figures(drift))]))


def plot(drift: Drift) -> str:
    """The curves as a Mermaid chart; empty if a value is not finite."""
    low, high = floor(drift)
    curves = [drift.eager, drift.compiled, *((low, high) if drift.redrawn else ())]
    length = next((at for at, values in enumerate(zip(*curves, strict=True)) if None in values), len(drift.at))
    every = max(1, math.ceil(length / MOST_POINTS))
    if length < 2:
        return ""
    lines = "\n".join(f"    line [{', '.join(f'{value:.6g}' for value in curve[:length:every])}]" for curve in curves)
    axis = f'    x-axis "step" {drift.at[0]} --> {drift.at[length - 1]}\n    y-axis "loss"'
    return block(f"xychart-beta\n{axis}\n{lines}", "mermaid")


def floor(drift: Drift) -> tuple[list[float | None], list[float | None]]:
    """The lowest and the highest loss of all runs with redrawn roundings at each step.

    None if one of them is not finite.
    """
    steps: list[tuple[float | None, ...]] = list(zip(*drift.redrawn, strict=True))
    known = [[value for value in values if value is not None] for values in steps]
    is_whole = [len(one) == len(values) for one, values in zip(known, steps, strict=True)]
    low = [min(one) if whole else None for one, whole in zip(known, is_whole, strict=True)]
    high = [max(one) if whole else None for one, whole in zip(known, is_whole, strict=True)]
    return list(low), list(high)


def _figures(drift: Drift) -> str:
    low, high = floor(drift) if drift.redrawn else ([None] * len(drift.at), [None] * len(drift.at))
    every = max(1, math.ceil(len(drift.at) / MOST_ROWS))
    chosen = sorted({*range(0, len(drift.at), every), len(drift.at) - 1})
    curves: Sequence[Sequence[float | None]] = (drift.eager, drift.compiled, low, high)
    rows = [[str(drift.at[at]), *(_figure(curve[at]) for curve in curves)] for at in chosen]
    return table(["step", "eager", "compiled", "lowest redrawn", "highest redrawn"], rows)


def _figure(value: float | None) -> str:
    return "-" if value is None else f"{value:.6g}"
