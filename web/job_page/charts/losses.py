"""The losses of a training by step: compiled, in eager, and in eager with other roundings, whose range is the floor of noise."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import groupby

from markupsafe import Markup

from minimizer.report.drift import Drift
from minimizer.vocabulary import counted
from web.job_page.charts import svg

WIDTH, HEIGHT = 960, 300
LEFT, RIGHT, TOP, BOTTOM = 66, 18, 16, 34
LOGARITHMIC = 50.0
"""Ratio of the highest to the lowest loss above which the scale is logarithmic, if all are positive."""
ABOVE = 20.0
"""How many times eager's highest loss is the highest that is drawn: a curve that runs away would flatten all others."""
Curve = Sequence[float | None]


def loss_curves(drift: Drift) -> Markup | None:
    """The picture; None without curves."""
    if len(drift.at) < 2 or not any(value is not None for value in drift.eager):
        return None
    drawn = _Drawing(drift)
    body = "".join([*drawn.grid(), *drawn.curves(), *drawn.axis()])
    said = f"Loss over {counted(drift.steps, 'step')}: eager solid, compiled dashed, {counted(len(drift.redrawn), 'run')} of eager with other roundings thin"
    return svg.picture("loss-chart", WIDTH, HEIGHT, "Losses of the training", said, body)


class _Drawing:
    def __init__(self, drift: Drift) -> None:
        self._drift = drift
        of_eager = [value for value in drift.eager if value is not None]
        most = ABOVE * max(map(abs, of_eager)) or 1.0
        every = [drift.eager, drift.compiled, *drift.redrawn]
        shown = [value for curve in every for value in curve if value is not None and abs(value) <= most]
        self._low, self._high = min(shown), max(shown)
        self._is_logarithmic = self._low > 0 and self._high > LOGARITHMIC * self._low
        if self._low == self._high:
            self._high = self._low + 1.0

    def grid(self) -> Iterator[str]:
        for share in (0.0, 0.25, 0.5, 0.75, 1.0):
            value = self._value(share)
            y = self._y(value)
            yield f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>'
            yield svg.text(LEFT - 8, y + 4, svg.figure(value), "tick", "end")

    def axis(self) -> Iterator[str]:
        at = self._drift.at
        for step, anchor in ((at[0], "start"), (at[len(at) // 2], "middle"), (at[-1], "end")):
            yield svg.text(self._x(step), HEIGHT - 10, f"step {step}", "tick", anchor)

    def curves(self) -> Iterator[str]:
        for curve in self._drift.redrawn:
            yield self._curve(curve, "redrawn")
        yield self._curve(self._drift.eager, "eager")
        yield self._curve(self._drift.compiled, "compiled")

    def _curve(self, curve: Curve, kind: str) -> str:
        """A curve, with a gap at non-finite losses."""
        points = list(zip(self._drift.at, curve, strict=True))
        parts = [list(run) for known, run in groupby(points, lambda point: point[1] is not None) if known]
        path = "".join(
            "M" + "L".join(f"{self._x(step):.1f},{self._y(value or 0.0):.1f}" for step, value in part) for part in parts
        )
        return f'<path class="{kind}" d="{path}"/>'

    def _x(self, step: int) -> float:
        first, last = self._drift.at[0], self._drift.at[-1]
        return LEFT + (WIDTH - LEFT - RIGHT) * (step - first) / max(last - first, 1)

    def _y(self, value: float) -> float:
        value = min(max(value, self._low), self._high)
        if self._is_logarithmic:
            share = math.log(value / self._low) / math.log(self._high / self._low)
        else:
            share = (value - self._low) / (self._high - self._low)
        return HEIGHT - BOTTOM - (HEIGHT - BOTTOM - TOP) * share

    def _value(self, share: float) -> float:
        if self._is_logarithmic:
            return self._low * math.exp(share * math.log(self._high / self._low))
        return self._low + (self._high - self._low) * share
