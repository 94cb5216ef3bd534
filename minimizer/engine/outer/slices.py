"""What the events of a flat program need: the backward slice of a value follows from that.

A value comes from the event that makes it and from those that change its storage in place, under any name; a gradient from the backwards
since it was last set. (M. Weiser, Program Slicing, 1981, for straight-line code.)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set

from minimizer.engine.outer.program import BACKWARD, GRAD, OuterProgram


def named_needs(program: OuterProgram) -> list[frozenset[int]]:
    """The earlier events that give each event its names: it can run without all others, though on other values."""
    needs: list[frozenset[int]] = []
    made: dict[str, int] = {}
    for index, event in enumerate(program.events):
        needs.append(frozenset(made[name] for name in event.reads if name in made))
        new = [name for name in event.makes if name not in made and name not in program.inputs]
        made.update(dict.fromkeys(new, index))  # one that is changed in place is made already
        if event.kind == BACKWARD:
            made.update((name + GRAD, index) for name in event.grads)
    return needs


def closed(needs: Sequence[Set[int]], start: Set[int]) -> set[int]:
    """These events, and all that they need."""
    found, left = set(start), list(start)
    while left:
        further = needs[left.pop()] - found
        found |= further
        left += further
    return found


def behind_looks(program: OuterProgram, lines: Set[tuple[str, int]] | None = None) -> set[int]:
    """The events that the values come from which a script reads, by these lines of its files, or by all.

    Those of the lines themselves are among them. What Python makes of a number is not known.
    """
    start: set[int] = set()
    made: dict[str, int] = {}
    changed: dict[int, int] = {}
    looks = [look for look in program.looks if lines is None or look.source[:2] in lines][::-1]
    for index, event in enumerate(program.events):
        while looks and looks[-1].after <= index:
            start |= _read(looks.pop().values, program, made, changed)
        if lines and event.source is not None and event.source[:2] in lines:
            start.add(index)
        made.update(dict.fromkeys(event.makes, index))
        changed.update((program.storages[name], index) for name in event.writes if name in program.storages)
    for look in looks:
        start |= _read(look.values, program, made, changed)
    return closed(direct_needs(program), start)


def _read(
    values: Sequence[str], program: OuterProgram, made: Mapping[str, int], changed: Mapping[int, int]
) -> set[int]:
    """The events that make these values, and those that have changed them last."""
    storages = [program.storages[name] for name in values if name in program.storages]
    return {made[name] for name in values if name in made} | {changed[one] for one in storages if one in changed}


def direct_needs(program: OuterProgram) -> list[frozenset[int]]:
    """The earlier events that each event needs by itself, by index.

    Of those that change a storage or a gradient it is the last one: that one needs the change before it.
    """
    needs: list[frozenset[int]] = []
    made: dict[str, int] = {}
    changed: dict[int, int] = {}
    grads: dict[str, int] = {}
    for index, event in enumerate(program.events):
        touched = (*event.reads, *event.writes)
        storages = {program.storages[name] for name in touched if name in program.storages}
        leaves = [name + GRAD for name in event.grads]
        named = {known[name] for name in event.reads for known in (made, grads) if name in known}
        memory = {changed[storage] for storage in storages if storage in changed}
        gathered = {grads[name] for name in leaves if name in grads} if event.kind == BACKWARD else set[int]()
        needs.append(frozenset(named | memory | gathered))
        made.update(dict.fromkeys(event.makes, index))
        changed.update((program.storages[name], index) for name in event.writes if name in program.storages)
        grads.update(dict.fromkeys(leaves, index))
    return needs
