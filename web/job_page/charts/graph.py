"""The graph around the culprit: boxes in ranks from top to bottom, good and bad distinguished by sign, shade and words.

Layout after Sugiyama, Tagawa and Toda (1981): ranks by longest path, edges that skip ranks are routed through dummy
places, and each rank is ordered by the mean position of its predecessors.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from markupsafe import Markup

from minimizer.report.culprit import GraphNode
from web.job_page.charts import svg

BOX, TALL = 204, 70
GAP, DROP, BEND, MARGIN = 20, 34, 26, 8
SIGNS = {"good": "✓", "bad": "✗", "propagated": "↓", "unknown": "?"}
VERDICTS = {"good": "right", "bad": "wrong by itself", "propagated": "passes wrong values on", "unknown": "not judged"}


@dataclass
class _Place:
    """The position of a node or, if ``node`` is None, of an edge that passes a rank."""

    rank: int
    node: GraphNode | None = None
    above: list[_Place] = field(default_factory=list)
    x: float = 0.0

    @property
    def width(self) -> float:
        return BOX if self.node is not None else BEND

    @property
    def y(self) -> float:
        return MARGIN + self.rank * (TALL + DROP)


def culprit_graph(nodes: Sequence[GraphNode]) -> Markup | None:
    """The picture; None if there is nothing to show."""
    if not nodes:
        return None
    ranks = _ranks(nodes)
    width = max(_pack(rank) for rank in ranks) + 2 * MARGIN
    for rank in ranks:
        shift = (width - _pack(rank)) / 2
        for place in rank:
            place.x += shift
    height = 2 * MARGIN + len(ranks) * TALL + (len(ranks) - 1) * DROP
    places = [place for rank in ranks for place in rank]
    body = "".join([*_edges(places), *(_box(p, p.node) for p in places if p.node is not None)])
    culprits = ", ".join(node.op for node in nodes if node.culprit) or "not among them"
    said = f"{len(nodes)} operations in the order in which values flow. Culprit: {culprits}. "
    said += " ".join(f"{node.op} is {VERDICTS[node.verdict]}." for node in nodes)
    return svg.picture("node-graph", width, height, "The graph around the culprit", said, body)


def _ranks(nodes: Sequence[GraphNode]) -> list[list[_Place]]:
    places: dict[str, _Place] = {}
    for node in nodes:  # in execution order: operands of a node come first
        used = [places[name] for name in node.inputs if name in places]
        places[node.name] = _Place(max((place.rank + 1 for place in used), default=0), node)
    depth = 1 + max(place.rank for place in places.values())
    ranks: list[list[_Place]] = [[] for _ in range(depth)]
    for node in nodes:
        place = places[node.name]
        for name in node.inputs:
            if (last := places.get(name)) is None:
                continue
            for number in range(last.rank + 1, place.rank):
                bend = _Place(number, above=[last])
                ranks[number].append(bend)
                last = bend
            place.above.append(last)
        ranks[place.rank].append(place)
    for rank in ranks:
        _pack(rank)
        order = {id(place): (_mean(place), index) for index, place in enumerate(rank)}
        rank.sort(key=lambda place: order[id(place)])
        _pack(rank)
    return ranks


def _mean(place: _Place) -> float:
    if not place.above:
        return place.x + place.width / 2
    return sum(one.x + one.width / 2 for one in place.above) / len(place.above)


def _pack(rank: list[_Place]) -> float:
    """Stand side by side, from the left; the width of all."""
    x = 0.0
    for place in rank:
        place.x, x = x, x + place.width + GAP
    return x - GAP


def _edges(places: Sequence[_Place]) -> Iterator[str]:
    for place in places:
        for above in place.above:
            x1, y1 = above.x + above.width / 2, above.y + (TALL if above.node is not None else TALL / 2)
            x2, y2 = place.x + place.width / 2, place.y + (0 if place.node is not None else TALL / 2)
            middle = (y1 + y2) / 2
            yield f'<path class="edge" d="M{x1:.1f},{y1:.1f}C{x1:.1f},{middle:.1f} {x2:.1f},{middle:.1f} {x2:.1f},{y2:.1f}"/>'
            if place.node is not None:
                yield f'<path class="head" d="M{x2:.1f},{y2:.1f}l-4.5,-8h9z"/>'


def _box(place: _Place, node: GraphNode) -> str:
    kind = f"node {node.verdict}{' culprit' if node.culprit else ''}"
    x, y = place.x, place.y
    where = f" in {node.module}" if node.module else ""
    words = (
        f"{node.op}{where}: {VERDICTS[node.verdict]}. Own error {svg.figure(node.local_error)}, "
        f"in the compiled whole {svg.figure(node.propagated_error)}"
    )
    error = (
        "" if node.local_error is None else f"off by {svg.figure(node.local_error)}" if node.local_error else "exact"
    )
    return (
        f'<g class="{kind}">{svg.tip(words)}<rect x="{x:.1f}" y="{y:.1f}" width="{BOX}" height="{TALL}" rx="9"/>'
        + svg.text(x + 14, y + 24, SIGNS[node.verdict], "sign")
        + svg.text(x + 34, y + 24, svg.shorten(node.op, 18), "op")
        + svg.text(x + 34, y + 42, svg.shorten(node.shape, 24), "shape")
        + svg.text(x + 34, y + 58, error, "shape")
        + "</g>"
    )
