"""The dependencies of an event in a flat program, for rerunning it from the program's inputs."""

from __future__ import annotations

from collections.abc import Sequence

from ..questions import SidesStep


def needed(steps: Sequence[SidesStep], index: int) -> list[int]:
    """The earlier events that one needs, in order, with all switches.

    If one of them draws random numbers, all earlier draws are needed too: a mask is only reproduced from the same
    random state.
    """
    found = _closed(steps, {index})
    last = max((place for place in found if steps[place].draws), default=-1)
    if last >= 0:
        found = _closed(steps, found | {place for place in range(last) if steps[place].draws})
    switches = {place for place in range(index) if steps[place].is_setting and not steps[place].draws}
    return sorted((found | switches) - {index})


def _closed(steps: Sequence[SidesStep], start: set[int]) -> set[int]:
    found, left = set(start), list(start)
    while left:
        further = set(steps[left.pop()].needs) - found
        found |= further
        left += further
    return found
