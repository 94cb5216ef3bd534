"""The events of a flat program that the values of one come from, where it is run again from the program's inputs."""

from __future__ import annotations

from collections.abc import Sequence

from ..questions import Step


def needed(steps: Sequence[Step], index: int) -> list[int]:
    """The events before one that it needs, in order, with all switches.

    Where one of them draws random numbers, so do all that draw before it: a mask is the same only from the same random state.
    """
    found = _closed(steps, {index})
    last = max((place for place in found if steps[place].draws), default=-1)
    if last >= 0:
        found = _closed(steps, found | {place for place in range(last) if steps[place].draws})
    switches = {place for place in range(index) if steps[place].is_setting and not steps[place].draws}
    return sorted((found | switches) - {index})


def _closed(steps: Sequence[Step], start: set[int]) -> set[int]:
    found, left = set(start), list(start)
    while left:
        further = set(steps[left.pop()].needs) - found
        found |= further
        left += further
    return found
