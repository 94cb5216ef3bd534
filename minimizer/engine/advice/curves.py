"""Arithmetic on the losses of two runs of a script: their distance at each step, and what parts first."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

from minimizer.engine.child.curves import Curve
from minimizer.report.culprit import Source
from minimizer.report.drift import Drift, DriftVerdict, Parting

NOTICED, VISIBLE = 0.01, 0.1
"""Shares of the loss: noticeable to a reader of the log, and visible as two curves in a plot."""
LEAST_SCALE = 0.05
"""Least scale of a relative difference, as a share of the median loss: near a zero loss, ratios mean nothing."""
FLOOR_TIMES = 3.0
"""Most distance of the compiled run, relative to the farthest redrawn run: a maximum of few runs underestimates."""
LATER, LATER_STEPS = 1.25, 2
"""Factor and number of steps by which the first redrawn run may part later than the compiled one."""
LEAST_REDRAWN = 2
MOST_POINTS = 200


@dataclass(frozen=True)
class Sides:
    """The runs of a script: eager, compiled, and eager with redrawn roundings."""

    eager: Curve
    compiled: Curve
    redrawn: tuple[Curve, ...] = ()

    @property
    def apart(self) -> Deviation:
        """The distance of the compiled run from eager."""
        return deviation(self.eager, self.compiled)


@dataclass(frozen=True)
class Deviation:
    """The relative distance of one run's loss from eager's at each step; infinite if either is not finite."""

    values: tuple[float, ...]

    def first(self, least: float) -> int | None:
        """The first step, from 1, with a distance above ``least``."""
        return next((step for step, value in enumerate(self.values, 1) if value > least), None)

    @property
    def largest(self) -> float:
        return max(self.values, default=0.0)


def deviation(eager: Curve, other: Curve) -> Deviation:
    """The deviation of a run from eager, over the steps that both have."""
    scales: dict[int, float] = {}
    for line in _lines(eager):
        sizes = [abs(loss) for at, loss, *_ in eager.steps if at == line and math.isfinite(loss)]
        scales[line] = LEAST_SCALE * statistics.median(sizes) if sizes else 0.0
    pairs = zip(eager.steps, other.steps, strict=False)
    return Deviation(tuple(_relative(one[1], two[1], scales[one[0]]) for one, two in pairs))


def same_steps(eager: Curve, other: Curve) -> bool:
    """Whether two runs call the same backwards in the same order, and as many."""
    return [step[0] for step in eager.steps] == [step[0] for step in other.steps] and eager.lines == other.lines


def are_equal(one: Curve, other: Curve) -> bool:
    """Whether all known figures of both runs are equal to the bit; a compiled optimizer has no recorded norms."""
    figures = (pair for steps in zip(one.steps, other.steps, strict=True) for pair in zip(*steps, strict=True))
    return all(_is_same(a, b) for a, b in figures if a is not None and b is not None)


def is_chaos(sides: Sides) -> bool:
    """Whether redrawn roundings part eager from itself as visibly as the compiler does, and no later.

    Every run begins at eager's loss, except for a loss that is all rounding, such as the mean of normalized values,
    which differs from the first step on.
    """
    begins = [next(at for at, step in enumerate(sides.eager.steps) if step[0] == line) for line in _lines(sides.eager)]
    runs = [sides.apart, *(deviation(sides.eager, run) for run in sides.redrawn)]
    if any(run.values[at] > NOTICED for run in runs for at in begins):
        return False
    own = sides.apart.first(VISIBLE)
    parted = [at for run in sides.redrawn if (at := deviation(sides.eager, run).first(VISIBLE)) is not None]
    if own is None or len(sides.redrawn) < LEAST_REDRAWN or 2 * len(parted) < len(sides.redrawn):
        return False
    return min(parted) <= LATER * own + LATER_STEPS


def is_within(sides: Sides) -> bool:
    """Whether the compiled run is nowhere much further from eager than redrawn runs have been by that step."""
    if len(sides.redrawn) < LEAST_REDRAWN:
        return False
    runs = [deviation(sides.eager, run).values for run in sides.redrawn]
    floor = list(accumulate(map(max, zip(*runs, strict=True)), max))
    later = [floor[min(len(floor), round(LATER * step) + LATER_STEPS) - 1] for step in range(1, len(floor) + 1)]
    return all(value <= FLOOR_TIMES * most for value, most in zip(sides.apart.values, later, strict=True))


def partings(sides: Sides) -> list[Parting]:
    """The first steps at which the loss and the norms of gradients and parameters differ, if known on both sides."""
    found = []
    for index, what in enumerate(("loss", "gradient norm", "parameter norm"), 1):
        steps = enumerate(zip(sides.eager.steps, sides.compiled.steps, strict=True), 1)
        both = [(step, one[index], two[index]) for step, (one, two) in steps]
        known = [(step, a, b) for step, a, b in both if a is not None and b is not None]
        if known:
            differs = next((step for step, a, b in known if not _is_same(a, b)), None)
            far = [step for step, a, b in known if _relative(a, b, 0.0) > NOTICED]
            parts = sides.apart.first(NOTICED) if index == 1 else min(far, default=None)
            found.append(Parting(what=what, differs=differs, parts=parts))
    return found


def drift(sides: Sides, verdict: DriftVerdict, what: str) -> Drift:
    """The part of the report, with the curves of the loss that parts first."""
    step = sides.apart.first(NOTICED) or 1
    line = sides.eager.steps[step - 1][0]
    at = [number for number, one in enumerate(sides.eager.steps, 1) if one[0] == line]
    every = max(1, math.ceil(len(at) / MOST_POINTS))
    at = at[::every]
    return Drift(
        verdict=verdict,
        what=what,
        steps=len(sides.eager.steps),
        source=source_of(sides.eager, step),
        partings=partings(sides),
        at=at,
        eager=_points(sides.eager, at),
        compiled=_points(sides.compiled, at),
        redrawn=[_points(run, at) for run in sides.redrawn],
    )


def source_of(curve: Curve, step: int) -> Source | None:
    """The line that calls the backward of a step, from 1."""
    file, line, code = curve.lines[curve.steps[step - 1][0]]
    return Source(file=file, line=line, code=code) if line else None


def _lines(curve: Curve) -> set[int]:
    """The indices of the lines with a loss."""
    return {step[0] for step in curve.steps}


def _points(curve: Curve, at: Sequence[int]) -> list[float | None]:
    losses = [curve.steps[number - 1][1] for number in at]
    return [loss if math.isfinite(loss) else None for loss in losses]


def _relative(eager: float, other: float, least: float) -> float:
    if _is_same(eager, other):
        return 0.0
    if not (math.isfinite(eager) and math.isfinite(other)):
        return math.inf
    return abs(other - eager) / (max(abs(eager), least) or 1.0)


def _is_same(one: float, other: float) -> bool:
    return one == other or (math.isnan(one) and math.isnan(other))
