"""The error of every layer in execution order, on a logarithmic scale, with the first offender marked.

Two series: the error of a layer's own compiled code on eager's inputs (points), and that of its values in the compiled
whole (line). A logarithmic scale has no zero: exact layers are on a separate line below it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from itertools import groupby, takewhile

from markupsafe import Markup

from minimizer.report.layer_rows import LayerRow
from minimizer.vocabulary import counted
from web.job_page.charts import svg

WIDTH, HEIGHT = 960, 320
LEFT, RIGHT, TOP, BOTTOM = 62, 18, 46, 64
EXACT = 26
"""How far below the scale the line of exact layers lies."""
MOST_GROUPS = 12
NONFINITE = {"nan": "NaN", "inf": "Inf"}


def layer_errors(rows: Sequence[LayerRow], title: str) -> Markup | None:
    """The picture of these rows; None if no errors are known."""
    drawn = _Drawing(rows)
    if not drawn.shows:
        return None
    body = "".join([*drawn.scale(), *drawn.groups(), *drawn.marks(), drawn.line(), *drawn.points(), *drawn.columns()])
    return svg.picture("layer-chart", WIDTH, HEIGHT, title, drawn.description(), body)


class _Drawing:
    def __init__(self, rows: Sequence[LayerRow]) -> None:
        self._rows, self._layers = rows, [row.layer for row in rows]
        layers = self._layers
        errors = [e for layer in layers for e in (layer.local_error, layer.propagated_error) if e is not None]
        self.shows = bool(errors) or any(layer.nonfinite is not None for layer in layers)
        positive = [e for e in errors if e > 0 and math.isfinite(e)] or [1e-7]
        self._low = math.floor(math.log10(max(min(positive), 1e-30)))
        self._high = max(math.ceil(math.log10(max(positive))), self._low + 1)
        self._floor = HEIGHT - BOTTOM - EXACT
        self._step = (WIDTH - LEFT - RIGHT) / max(len(layers), 1)

    def _x(self, index: int) -> float:
        return LEFT + self._step * (index + 0.5)

    def _y(self, error: float) -> float:
        return HEIGHT - BOTTOM if error <= 0 else self._height(math.log10(error))

    def _height(self, power: float) -> float:
        share = (power - self._low) / (self._high - self._low)
        return self._floor - (self._floor - TOP) * min(max(share, 0.0), 1.0)

    def scale(self) -> Iterator[str]:
        every = max(1, math.ceil((self._high - self._low) / 6))
        for power in range(self._low, self._high + 1, every):
            y = self._height(power)  # not that of 10.0**power: the next power after the largest float overflows
            yield f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>'
            yield svg.text(LEFT - 10, y + 4, _power(power), "tick", "end")
        y = HEIGHT - BOTTOM
        yield f'<line class="grid exact" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y}" y2="{y}"/>'
        yield svg.text(LEFT - 10, y + 4, "exact", "tick", "end")

    def groups(self) -> Iterator[str]:
        """The boundaries between blocks, with their names if there is room."""
        position = 0
        for number, (prefix, group) in enumerate(groupby(self._rows, key=self._group())):
            rows = list(group)
            size, name = len(rows), rows[0].name if all(row.layer.path == prefix for row in rows) else prefix
            x, width = LEFT + self._step * position, self._step * size
            if number:
                yield f'<line class="block" x1="{x:.1f}" x2="{x:.1f}" y1="{TOP}" y2="{HEIGHT - BOTTOM + 10}"/>'
            if width >= 7.5 * len(name):
                yield svg.text(x + width / 2, HEIGHT - BOTTOM + 24, name, "tick", "middle")
            position += size
        yield svg.text(LEFT, HEIGHT - 12, "in the order in which they run \N{RIGHTWARDS ARROW}", "tick faint")

    def _group(self) -> Callable[[LayerRow], str]:
        """Grouping by the first differing path components of layers, and one more if that gives few groups."""
        paths = {tuple(layer.path.split(".")) for layer in self._layers if layer.path}
        same = takewhile(lambda steps: len(set(steps)) == 1, zip(*paths, strict=False))
        shared = len(list(same)) if len(paths) > 1 else 0
        fine, coarse = _prefix(shared + 2), _prefix(shared + 1)
        return fine if len(list(groupby(self._rows, key=fine))) <= MOST_GROUPS else coarse

    def marks(self) -> Iterator[str]:
        """The roots; the first one by name."""
        first = True
        for index, row in enumerate(self._rows):
            if row.layer.verdict != "bad":
                continue
            x = self._x(index)
            half = max(self._step / 2, 3)
            yield f'<rect class="root" x="{x - half:.1f}" y="{TOP}" width="{2 * half:.1f}" height="{HEIGHT - BOTTOM - TOP}"/>'
            if first:
                is_left = x < WIDTH * 0.6
                yield f'<line class="offender" x1="{x:.1f}" x2="{x:.1f}" y1="{TOP - 10}" y2="{HEIGHT - BOTTOM}"/>'
                name = svg.shorten(row.words, 46)
                words = f"first wrong: {name}"
                yield svg.text(x + (6 if is_left else -6), TOP - 16, words, "offender", "start" if is_left else "end")
            first = False

    def line(self) -> str:
        """The compiled whole, interrupted where unknown."""
        path, is_open = "", False
        for index, layer in enumerate(self._layers):
            if layer.propagated_error is None:
                is_open = False
                continue
            path += f"{'L' if is_open else 'M'}{self._x(index):.1f},{self._y(layer.propagated_error):.1f}"
            is_open = True
        return f'<path class="whole" d="{path}"/>' if path else ""

    def points(self) -> Iterator[str]:
        for index, layer in enumerate(self._layers):
            x = self._x(index)
            if layer.nonfinite is not None:
                yield svg.text(x, TOP + 10, NONFINITE[layer.nonfinite.what], "lost", "middle")
            if layer.local_error is None:
                continue
            y = self._y(layer.local_error)
            if layer.verdict == "bad":
                yield f'<path class="bad" d="M{x:.1f},{y - 8:.1f}l8,8l-8,8l-8,-8z"/>'
            else:
                yield f'<circle class="own" cx="{x:.1f}" cy="{y:.1f}" r="{3.6 if self._step > 9 else 2.6}"/>'

    def columns(self) -> Iterator[str]:
        """Something to rest the pointer on."""
        for index, row in enumerate(self._rows):
            x = LEFT + self._step * index
            yield (
                f'<rect class="column" x="{x:.1f}" y="{TOP}" width="{self._step:.1f}" height="{HEIGHT - TOP - BOTTOM + 8}">'
                f"{svg.tip(_words(row))}</rect>"
            )

    def description(self) -> str:
        wrong = [row for row in self._rows if row.layer.verdict == "bad"]
        roots = [row.layer for row in wrong]
        passing = sum(layer.verdict == "propagated" for layer in self._layers)
        said = f"{counted(len(self._layers), 'layer')} in the order in which they run. "
        if not roots:
            return said + "None is wrong when it is compiled alone."
        lost = f"with {NONFINITE[roots[0].nonfinite.what]}" if roots[0].nonfinite is not None else ""
        error = lost or f"with an error of {svg.figure(roots[0].local_error)}"
        said += f"The first that is wrong by itself is {wrong[0].words}, {error}"
        said += f"; {len(roots) - 1} more {'is' if len(roots) == 2 else 'are'}" if len(roots) > 1 else ""
        return said + (f". {passing} {'passes' if passing == 1 else 'pass'} wrong values on." if passing else ".")


def _prefix(depth: int) -> Callable[[LayerRow], str]:
    return lambda row: ".".join(row.layer.path.split(".")[:depth])


def _words(row: LayerRow) -> str:
    layer = row.layer
    verdicts = {"bad": "wrong by itself", "propagated": "passes wrong values on", "good": "right", "unknown": "unknown"}
    kind = f" ({layer.cls})" if layer.cls and not row.name.endswith(")") else ""
    name = row.words + kind + (", the culprit" if row.is_culprit else "")
    return (
        f"{name}: {verdicts[layer.verdict]}. Own error {svg.figure(layer.local_error)}, "
        f"in the compiled whole {svg.figure(layer.propagated_error)}"
    )


def _power(power: int) -> str:
    if -3 < power < 4:
        return f"{10.0**power:g}"
    return "10" + str(power).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))
