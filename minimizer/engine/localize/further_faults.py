"""Finds further culprits in a graph: regions that fail in isolation, each with a fault that the first culprit does not explain."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from minimizer.engine.child.outcome import Outcome
from minimizer.engine.localize.localize import Localized, narrow
from minimizer.engine.oracle.oracle import Oracle
from minimizer.engine.oracle.signature import signature_of
from minimizer.engine.program.model import Program
from minimizer.engine.program.regions import Cutter, Region, common_module
from minimizer.errors import BudgetExceeded


@dataclass(frozen=True)
class Further:
    """A secondary culprit: its minimal program, that program's outcome, and its window with modules and lines."""

    program: Program
    outcome: Outcome
    window: Program


@dataclass(frozen=True)
class Unreduced:
    """A secondary culprit that was not reduced in time: its smallest program so far, and its window."""

    program: Program
    window: Program


def further(
    program: Program,
    located: Localized,
    reduced: Program,
    oracle: Oracle,
    *,
    suspects: Sequence[Region] = (),
    same: Sequence[Region] = (),
    reduce: Callable[[Program, Oracle], Program],
    tell: Callable[[str], None] = lambda message: None,
) -> Iterator[Further | Unreduced | Region]:
    """Culprits other than the one that ``reduced`` shows, in execution order, each with a separate fault.

    Yields a region instead of a culprit if it reduces to the first culprit's program. At the end of the time, yields
    the unfinished culprit, and raises the exception.

    Args:
        program: the graph that was localized.
        located: the result of localizing the first culprit in it.
        reduced: the first culprit's minimal program.
        oracle: judges the windows.
        suspects: further regions known to fail in isolation.
        same: places known to hold the first culprit's fault; the nodes around them are tried.
        reduce: reduces a failing window, with an oracle that accepts its failure.
        tell: receives progress messages.
    """
    by_itself = any(layer.verdict == "bad" for layer in located.layers)
    roots = located.roots if by_itself else ()  # without regions that fail only together with their neighbours
    own = _holder(program, roots, reduced)
    cutter = Cutter(program)
    first, known = _form(reduced), {_form(reduced), _form(cutter.cut(own.start, own.stop))}
    places = {*roots, *located.elsewhere, *suspects, *_around(program, own, reduced)} - {own}
    pending = sorted((part for place in places for part in _beside(place, same)), key=lambda region: region.start)
    while pending:
        region = pending.pop(0)
        oracle.watch()
        window = cutter.cut(region.start, region.stop)
        if not window.outputs or _form(window) in known:
            continue
        known.add(_form(window))
        tell(f"whether {region.path or 'the rest of the graph'} fails for another reason")
        (outcome,) = oracle.judge([window])
        signature = signature_of(outcome)
        if signature is None or (outcome.is_layout_only and not oracle.shows(outcome)):
            continue
        judge = oracle if oracle.same(outcome) else oracle.accepting((signature,))
        tell(f"another failure, in {region.path or 'the rest of the graph'}, is being reduced")
        narrowed = smallest = window
        try:
            narrowed = smallest = narrow(program, region, judge)
            smallest = reduce(narrowed, judge)
            (outcome,) = judge.judge([smallest])
        except BudgetExceeded:
            yield Unreduced(smallest, narrowed)
            raise
        pending[:0] = _around(program, region, smallest)
        if _form(smallest) == first:
            start, stop = _span(program, narrowed)
            yield Region(start, stop, *common_module(program.nodes[start:stop]))
        elif _form(smallest) not in known:
            known.add(_form(smallest))
            yield Further(smallest, outcome, narrowed)


def _holder(program: Program, roots: Sequence[Region], reduced: Program) -> Region:
    """The root that holds the culprit; the whole program if none does."""
    first, stop = _span(program, reduced)
    whole = Region(0, len(program.nodes))
    return next((root for root in roots if root.start <= first and stop <= root.stop), whole)


def _around(program: Program, region: Region, reduced: Program) -> list[Region]:
    """The parts of a region before and after the culprit found in it."""
    first, stop = _span(program, reduced)
    parts = [replace(region, stop=first), replace(region, start=stop)]
    return [part for part in parts if part.size > 0]


def _beside(region: Region, same: Sequence[Region]) -> Iterator[Region]:
    """The parts of a region outside of the known places; the whole region if it holds none."""
    start = region.start
    for place in sorted(same, key=lambda place: place.start):
        if region.start <= place.start and place.stop <= region.stop and place.start >= start:
            if place.start > start:
                yield replace(region, start=start, stop=place.start)
            start = place.stop
    if start < region.stop:
        yield replace(region, start=start)


def _span(program: Program, reduced: Program) -> tuple[int, int]:
    """(start, stop) in the program of the nodes that remain in ``reduced``; the whole program if none do."""
    left = {node.name for node in reduced.nodes}
    places = [index for index, node in enumerate(program.nodes) if node.name in left]
    return (places[0], places[-1] + 1) if places else (0, len(program.nodes))


def _form(program: Program) -> str:
    return program.fingerprint(values=False)
