"""Localizes the fault: judges regions of the graph in isolation, on eager's own inputs, then narrows one to a window.

Golden inputs from eager give every region its *local* error, so that a layer that only propagates a wrong value is not
blamed. The search goes from coarse to fine: regions follow module paths (equal blocks compile to the same kernels, so
the cost grows with the number of distinct blocks), and only the culprit region is narrowed. Regions come before nodes
because returning every intermediate breaks fusions and patterns, and many real faults vanish with them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from minimizer.engine.child.outcome import Ending, Outcome
from minimizer.engine.localize.behind_jumps import cuts, first_wrong, is_unclear, judge_regions, taken_apart
from minimizer.engine.oracle.oracle import Oracle
from minimizer.engine.oracle.signature import signature_of
from minimizer.engine.program.model import Program
from minimizer.engine.program.regions import SMALL, Region, common_module, cut, split
from minimizer.report.culprit import Layer
from minimizer.report.model import Failure

SINGLE = 64
"""Most nodes of all roots to try one by one when ``--target`` names no failing region."""


@dataclass(frozen=True)
class Localized:
    """The result of localization: ``window``, the smallest failing program found, and the regions it was chosen from.

    ``roots``: all regions that fail in isolation, in execution order; the window is part of the chosen one.
    ``elsewhere``: regions that fail in another way.
    """

    window: Program
    roots: tuple[Region, ...]
    layers: tuple[Layer, ...]
    confirmed: bool
    """Whether the window fails in isolation; False: not even the whole graph does."""
    elsewhere: tuple[Region, ...] = ()
    failure: Failure | None = None
    """The failure of the window, if it is another one than was looked for."""


def localize(
    program: Program, oracle: Oracle, *, target: str | None = None, on_region: Callable[[Layer], None] = lambda _: None
) -> Localized:
    """Find a window that fails in isolation. Falls back to larger windows, finally to the whole program.

    Args:
        program: the graph.
        oracle: judges the regions.
        target: the root to narrow, by index or module path; the first one if None.
        on_region: receives the row of each region once it is judged.
    """
    regions = split(program.nodes, 0, len(program.nodes))
    layers: list[Layer] = []
    roots: list[Region] = []
    elsewhere: list[Region] = []
    unclear: list[Region] = []
    if len(regions) > 1:
        outcomes = judge_regions(program, regions, oracle)
        for order, (region, outcome) in enumerate(zip(regions, outcomes, strict=True)):
            failed = outcome is not None and oracle.same(outcome)
            layers.append(_layer(region, order, outcome, failed))
            on_region(layers[-1])
            if failed:
                roots.append(region)
            elif is_unclear(outcome):
                unclear.append(region)
            elif outcome is not None and _fails_otherwise(outcome):
                elsewhere.append(region)
    roots = roots or _cleared(program, unclear, oracle)
    if not roots and (wider := _widen(program, regions, oracle)) is not None:
        roots = [wider]
    fails = bool(roots)
    if not fails:
        (outcome,) = oracle.judge([program])
        roots = _cleared(program, regions, oracle) if len(regions) == 1 and is_unclear(outcome) else []
        fails = oracle.same(outcome) or bool(roots)
    asked_for = find_root(roots, target) if target is not None else None
    if fails and target is not None and asked_for is None:
        singles = _singles(program, roots or [Region(0, len(program.nodes))], oracle)
        asked_for = find_root(singles, target)
        roots = singles if asked_for else roots
    window = narrow(program, asked_for or roots[0], oracle) if roots else program
    return Localized(window, tuple(roots), tuple(layers), confirmed=fails, elsewhere=tuple(elsewhere))


def _cleared(program: Program, unclear: Sequence[Region], oracle: Oracle) -> list[Region]:
    """The first failing part of these regions after splitting them at their jumps; empty without one."""
    parts = [part for region in unclear for part in taken_apart(program, region)]
    wrong = first_wrong(program, parts, oracle).wrong if parts else None
    return [wrong.region] if wrong is not None and oracle.same(wrong.outcome) else []


def _widen(program: Program, regions: Sequence[Region], oracle: Oracle) -> Region | None:
    """The first run of neighbouring regions that fails, of doubling width; None if only the whole program can."""
    width = 2
    while width < len(regions):
        spans = [
            Region(regions[i].start, regions[min(i + width, len(regions)) - 1].stop)
            for i in range(0, len(regions) - 1, max(1, width // 2))
        ]
        for span, failed in zip(spans, oracle.check(cuts(program, spans, oracle)), strict=True):
            if failed:
                return span
        width *= 2
    return None


def _singles(program: Program, regions: Sequence[Region], oracle: Oracle) -> list[Region]:
    """The nodes of these regions that fail in isolation; empty if there are more than `SINGLE` to try."""
    places = [index for region in regions for index in range(region.start, region.stop)]
    if len(places) > SINGLE:
        return []
    verdicts = oracle.check(cuts(program, [Region(index, index + 1) for index in places], oracle))
    nodes = program.nodes
    return [
        Region(i, i + 1, *common_module(nodes[i : i + 1])) for i, failed in zip(places, verdicts, strict=True) if failed
    ]


def narrow(program: Program, region: Region, oracle: Oracle) -> Program:
    """Narrow a failing region to its first failing part: to a node if one shows the failure, else module by module."""
    shown = _first_wrong(program, region, oracle)
    if shown is not None:
        return shown
    while region.size > SMALL:
        parts = split(program.nodes, region.start, region.stop)
        if len(parts) < 2:
            break
        verdicts = oracle.check(cuts(program, parts, oracle))
        failing = [part for part, failed in zip(parts, verdicts, strict=True) if failed]
        if not failing or failing[0].size >= region.size:
            break
        region = failing[0]
    if 1 < region.size <= SMALL:
        singles = cuts(program, [Region(index, index + 1) for index in range(region.start, region.stop)], oracle)
        for single, failed in zip(singles, oracle.check(singles), strict=True):
            if failed:
                return single
    return cut(program, region.start, region.stop)


def _first_wrong(program: Program, region: Region, oracle: Oracle) -> Program | None:
    """The first node with a wrong value, from one trial that returns every intermediate, confirmed in isolation.

    None if no value is wrong (the failure is an exception), if observing makes it vanish, or if it needs several nodes.
    """
    if region.size < 2 or not any(accepted.kind.is_numeric for accepted in oracle.accepts):
        return None
    window = cut(program, region.start, region.stop)
    seen = tuple(node.name for node in window.nodes if node.meta is not None)
    (outcome,) = oracle.judge([replace(window, outputs=seen)])
    kinds = {accepted.kind for accepted in oracle.accepts}
    shown = [d for d in outcome.verdict.differences if d.kind in kinds] if outcome.verdict else []
    places = [re.match(r"output\[(\d+)\]", difference.where) for difference in shown]
    wrong = sorted(int(place[1]) for place in places if place and int(place[1]) < len(seen))
    if not oracle.same(outcome) or not wrong:
        return None
    position = next(index for index, node in enumerate(program.nodes) if node.name == seen[wrong[0]])
    alone = cut(program, position, position + 1)
    return alone if oracle.check([alone])[0] else None


def find_root(roots: Sequence[Region], target: str) -> Region | None:
    """The root that a user names by its index or module path, or by the path of a module inside or around it."""
    if target.isdigit() and int(target) < len(roots):
        return roots[int(target)]
    for root in roots:
        if f"{root.path}.".startswith(f"{target}.") or (root.path and target.startswith(f"{root.path}.")):
            return root
    return None


def _fails_otherwise(outcome: Outcome) -> bool:
    """Whether a region without the failure in question shows another one; a memory layout does not count."""
    return signature_of(outcome) is not None and not outcome.is_layout_only


def _layer(region: Region, order: int, outcome: Outcome | None, failed: bool) -> Layer:
    """The row of a region; ``failed``: it shows the failure in question. One with another failure is bad too."""
    is_good = outcome is not None and (outcome.ending is Ending.SAME or outcome.is_layout_only)
    is_bad = failed or (outcome is not None and _fails_otherwise(outcome))
    verdict = "bad" if is_bad else "good" if is_good else "unknown"
    differences = outcome.verdict.differences if outcome and outcome.verdict else []
    judged = outcome is not None and outcome.ending in (Ending.SAME, Ending.DIFFERENT)

    def worst(name: str) -> float | None:
        values = [value for d in differences if (value := getattr(d, name)) is not None]
        return max(values, default=0.0 if judged else None)

    return Layer.model_validate(
        {
            "path": region.path,
            "class": region.module_class,
            "order": order,
            "local_error": worst("max_abs"),
            "required_atol": worst("required_atol"),
            "required_rtol": worst("required_rtol"),
            "verdict": verdict,
        }
    )
