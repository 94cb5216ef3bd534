"""Equal places of one graph: where else the operators stand that are at fault, and whether they fail there too.

What was localized is one window. The same operators in another layer are the same fault if they fail alone on what eager gives
them there, in the same way; a layer whose values do not bring the fault out passes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from minimizer.engine.child.outcome import Ending
from minimizer.engine.localize.localize import Localized
from minimizer.engine.localize.suspects import is_unclear
from minimizer.engine.oracle.oracle import Oracle
from minimizer.engine.program.model import Program
from minimizer.engine.program.regions import Region, common_module, cut
from minimizer.report.instances import Instances
from minimizer.vocabulary import counted

MOST_PLACES, AT_ONCE = 400, 8
"""Places that are asked at most, and how many in one batch."""


@dataclass(frozen=True)
class EqualWindows:
    """``wrong``: the other places where the operators at fault fail alone too. ``instances``: equal modules; None for none."""

    wrong: tuple[Region, ...]
    instances: Instances | None


def equal_windows(
    program: Program, located: Localized, oracle: Oracle, *, is_over: Callable[[], bool], tell: Callable[[str], None]
) -> EqualWindows:
    """Ask the operators of the window that was localized at every other place of the graph, until time ``is_over``."""
    own = _span(program, located.window)
    places = [] if own is None else [place for place in _places(program, own) if place != own][:MOST_PLACES]
    if own is None or not places:
        return EqualWindows((), None)
    verdicts: dict[str, set[bool | None]] = {}
    wrong: list[Region] = []
    right_layers = [layer.path for layer in located.layers if layer.verdict == "good" and layer.path]
    pattern = pattern_of(own.path)
    for start in range(0, len(places), AT_ONCE):
        batch = places[start : start + AT_ONCE]
        if is_over():
            verdicts |= {_instance(place.path): {None} for place in places[start:] if pattern_of(place.path) == pattern}
            break
        tell(f"equal operators at {counted(len(places), 'other place')}: {start} asked")
        outcomes = oracle.judge([cut(program, place.start, place.stop) for place in batch])
        for place, outcome in zip(batch, outcomes, strict=True):
            fails = oracle.shows(outcome)
            # In a layer that is right as a whole, what fails alone is made right by what it is compiled with.
            is_made_right = fails and any(f"{place.path}.".startswith(f"{path}.") for path in right_layers)
            if fails and not is_made_right:
                wrong.append(place)
            if pattern_of(place.path) == pattern:
                is_right = outcome.ending is Ending.SAME and not is_unclear(outcome)
                verdict = None if is_made_right else True if fails else False if is_right else None
                verdicts.setdefault(_instance(place.path), set()).add(verdict)
    return EqualWindows(tuple(wrong), _instances(own, wrong, verdicts))


def _instances(own: Region, wrong: Sequence[Region], verdicts: dict[str, set[bool | None]]) -> Instances | None:
    elsewhere = [place.path for place in wrong if place.path and pattern_of(place.path) != pattern_of(own.path)]
    verdicts.setdefault(_instance(own.path), set()).add(True)
    known = Instances(compared="operators")
    for path, seen in verdicts.items():
        (known.wrong if True in seen else known.right if seen == {False} else known.unclear).append(path)
    known.wrong = sorted({*known.wrong, *elsewhere}, key=_in_order)
    return known if own.path and len(known.wrong + known.right) > 1 else None


def _span(program: Program, window: Program) -> Region | None:
    """Where in the program the nodes of a window lie; None where it is all of it, or they do not lie together."""
    names = {node.name for node in window.nodes}
    places = [index for index, node in enumerate(program.nodes) if node.name in names]
    if not places or len(places) == len(program.nodes) or places[-1] - places[0] >= len(places):
        return None
    return Region(places[0], places[-1] + 1, *common_module(program.nodes[places[0] : places[-1] + 1]))


def _places(program: Program, own: Region) -> Iterator[Region]:
    """Every run of nodes that calls what a region calls, in modules of the same classes."""
    called = [(node.target, node.module_class) for node in program.nodes]
    for start in range(len(called) - own.size + 1):
        stop = start + own.size
        if called[start:stop] == called[own.start : own.stop] and cut(program, start, stop).outputs:
            yield Region(start, stop, *common_module(program.nodes[start:stop]))


def pattern_of(path: str) -> str:
    """What the paths of equal modules have in common: ``layers.*.mlp``."""
    return re.sub(r"(?<![^.])\d+(?![^.])", "*", path)


def _instance(path: str) -> str:
    """The path down to its last number, which says which of several equal modules it is."""
    return re.sub(r"((?:^|.*\.)\d+)(?![^.]).*", r"\1", path)


def _in_order(path: str) -> list[tuple[int, str]]:
    return [(int(step), "") if step.isdigit() else (-1, step) for step in path.split(".")]
