"""Equal windows: tries the operators at fault at every other place of the graph where they occur.

Localization ends with one window. The same operators in another layer have the same fault if they fail there in
isolation, on eager's inputs, in the same way. They pass in a layer whose values do not trigger the fault.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from minimizer.engine.child.outcome import Ending
from minimizer.engine.localize.behind_jumps import is_unclear
from minimizer.engine.localize.localize import Localized
from minimizer.engine.oracle.oracle import Oracle
from minimizer.engine.program.model import Program
from minimizer.engine.program.regions import Region, common_module, cut
from minimizer.report.instances import Instances
from minimizer.vocabulary import counted

MOST_PLACES, AT_ONCE = 400, 8
"""Most places to try, and the size of a batch."""


@dataclass(frozen=True)
class EqualWindows:
    """``wrong``: other places where the operators fail. ``instances``: the equal modules, None without any."""

    wrong: tuple[Region, ...]
    instances: Instances | None


def equal_windows(
    program: Program, located: Localized, oracle: Oracle, *, is_over: Callable[[], bool], tell: Callable[[str], None]
) -> EqualWindows:
    """Try the operators of the localized window at every other place of the graph, until ``is_over``."""
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
            # In a layer that is right as a whole, the surrounding nodes correct operators that fail in isolation.
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
    wrong_paths, right, unclear = list[str](), list[str](), list[str]()
    for path, seen in verdicts.items():
        (wrong_paths if True in seen else right if seen == {False} else unclear).append(path)
    everywhere = sorted({*wrong_paths, *elsewhere}, key=_in_order)
    known = Instances(wrong=everywhere, right=right, unclear=unclear, compared="operators")
    return known if own.path and len(known.wrong + known.right) > 1 else None


def _span(program: Program, window: Program) -> Region | None:
    """The region of a window's nodes in the program; None if it is the whole program, or they are not contiguous."""
    names = {node.name for node in window.nodes}
    places = [index for index, node in enumerate(program.nodes) if node.name in names]
    if not places or len(places) == len(program.nodes) or places[-1] - places[0] >= len(places):
        return None
    return Region(places[0], places[-1] + 1, *common_module(program.nodes[places[0] : places[-1] + 1]))


def _places(program: Program, own: Region) -> Iterator[Region]:
    """Every run of nodes with a region's targets, in modules of the same classes; the region itself included."""
    called = [(node.target, node.module_class) for node in program.nodes]
    for start in range(len(called) - own.size + 1):
        stop = start + own.size
        if called[start:stop] == called[own.start : own.stop] and cut(program, start, stop).outputs:
            yield Region(start, stop, *common_module(program.nodes[start:stop]))


def pattern_of(path: str) -> str:
    """The path with its numbers replaced, as equal modules share it: ``layers.*.mlp``."""
    return re.sub(r"(?<![^.])\d+(?![^.])", "*", path)


def _instance(path: str) -> str:
    """The path down to its last number, which identifies one of several equal modules."""
    return re.sub(r"((?:^|.*\.)\d+)(?![^.]).*", r"\1", path)


def _in_order(path: str) -> list[tuple[int, str]]:
    return [(int(step), "") if step.isdigit() else (-1, step) for step in path.split(".")]
