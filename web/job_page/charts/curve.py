"""The reduction curve: the number of remaining nodes over seconds or trials."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from markupsafe import Markup

Scale = Callable[[float], float]
Unit = Callable[[float], str]

WIDTH, HEIGHT = 520, 210
LEFT, RIGHT, TOP, BOTTOM = 46, 16, 16, 30


@dataclass(frozen=True)
class Point:
    """The number of remaining nodes after so many seconds, or trials."""

    at: float
    nodes: int


def reduction_curve(points: Sequence[Point], until: float | None = None) -> Markup:
    """Node count over time as a falling staircase on a logarithmic scale; an empty frame without points.

    Args:
        points: in the order of time.
        until: the end of the time axis, for a search that still runs.
    """
    return _curve(points, until, _clock)


def trials_curve(points: Sequence[Point], until: float) -> Markup:
    """The same over trials; ``until`` is how many there were."""
    return _curve(points, until, _trials)


def _curve(points: Sequence[Point], until: float | None, unit: Unit) -> Markup:
    end = max([until or 0.0, points[-1].at if points else 0.0, 1.0])
    points = _falling(points)
    start = points[0].at if points else 0.0
    most = max([point.nodes for point in points], default=10)
    top = max(10.0, float(most))

    def x(at: float) -> float:
        return LEFT + (WIDTH - LEFT - RIGHT) * (at - start) / max(end - start, 1e-9)

    def y(nodes: float) -> float:
        return TOP + (HEIGHT - TOP - BOTTOM) * (1 - math.log(max(nodes, 1)) / math.log(top))

    parts = [_grid(y, top)]
    if points:
        parts += [_axis(x, start, end, unit), _staircase(points, x, y, end)]
    else:
        parts.append(
            f'<text class="tick" x="{WIDTH / 2}" y="{HEIGHT / 2}" text-anchor="middle">Begins with the reduction</text>'
        )
    return Markup(  # built from numbers only
        f'<svg class="curve" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{_label(points, unit)}">{"".join(parts)}</svg>'
    )


def _falling(points: Sequence[Point]) -> list[Point]:
    kept = list(points[:1])
    kept += [after for before, after in pairwise(points) if after.nodes != before.nodes]
    return kept


def _grid(y: Scale, top: float) -> str:
    ticks = [1] + [10**power for power in range(1, 7) if 10**power <= top]
    if top > ticks[-1] * 2.5:
        ticks.append(round(top))
    return "".join(
        f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y(tick):.1f}" y2="{y(tick):.1f}"/>'
        f'<text class="tick" x="{LEFT - 8}" y="{y(tick) + 4:.1f}" text-anchor="end">{tick:,}</text>'
        for tick in ticks
    )


def _axis(x: Scale, start: float, end: float, unit: Unit) -> str:
    return "".join(
        f'<text class="tick" x="{x(at):.1f}" y="{HEIGHT - 8}" text-anchor="{anchor}">{unit(at)}</text>'
        for at, anchor in ((start, "start"), ((start + end) / 2, "middle"), (end, "end"))
    )


def _staircase(points: Sequence[Point], x: Scale, y: Scale, end: float) -> str:
    steps = [f"M{x(points[0].at):.1f},{y(points[0].nodes):.1f}"]
    steps += [f"H{x(point.at):.1f}V{y(point.nodes):.1f}" for point in points[1:]]
    steps.append(f"H{x(end):.1f}")
    line = "".join(steps)
    floor = HEIGHT - BOTTOM
    last = points[-1]
    return (
        f'<path class="area" d="{line}V{floor}H{x(points[0].at):.1f}Z"/>'
        f'<path class="line" d="{line}"/>'
        f'<circle class="dot" cx="{x(last.at):.1f}" cy="{y(last.nodes):.1f}" r="5"/>'
    )


def _label(points: Sequence[Point], unit: Unit) -> str:
    if not points:
        return "No reduction step yet"
    first, last = points[0], points[-1]
    return f"Nodes fell from {first.nodes} to {last.nodes} in {unit(last.at - first.at)}"


def _clock(seconds: float) -> str:
    whole = round(seconds)
    return f"{whole} s" if whole < 120 else f"{whole // 60} min {whole % 60:02d} s"


def _trials(trials: float) -> str:
    whole = round(trials)
    return f"{whole:,} trial{'' if whole == 1 else 's'}"
