"""Dependencies between the events of a flat program, and the backward slice of a value.

A value depends on the event that creates it and on those that change its storage in place, under any name; a gradient
on the backwards since it was last set. (M. Weiser, Program Slicing, 1981, for straight-line code.)
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence, Set

from minimizer.engine.outer.program import BACKWARD, GRAD, GRAPH, Event, OuterProgram

MOST_ALIVE = 16
"""Most storages whose results are watched at one event (the latest), one result of each: every one is copied."""
FILLS = re.compile(r"^(?:\w+ = )?(\w+)(?:\[(?::|\.\.\.)\] = |\.(?:copy_|fill_|zero_|set_)\()")
"""Matches statements that overwrite a whole tensor without reading it."""
OF_SHAPE = re.compile(
    r"\btorch\.\w+_like\((\w+)\b(?!\.)|\b(\w+)\.new_\w+\(|\.(?:view|expand|reshape|type|resize)_as_?\((?:other=)?(\w+)\)"
)
"""Calls that take only the shape, dtype and device of a tensor."""
ROOTS = re.compile(
    r"(?:^|= )(?:torch\.autograd\.(?:backward|grad)\((?:\w+=)?(\w+|[\[(][^\[\]()]*[\])])|(\w+)\.backward\()"
)
"""Matches backwards and their roots, whose values they do not read."""


def named_needs(program: OuterProgram) -> list[frozenset[int]]:
    """The earlier events that bind each event's names: it can run without all others, though on other values."""
    needs: list[frozenset[int]] = []
    made: dict[str, int] = {}
    for index, event in enumerate(program.events):
        needs.append(frozenset(made[name] for name in event.reads if name in made))
        new = [name for name in event.makes if name not in made and name not in program.inputs]
        made.update(dict.fromkeys(new, index))  # an event that changes it in place does not create it
        if event.kind == BACKWARD:
            made.update((name + GRAD, index) for name in event.grads)
    return needs


def closed(needs: Sequence[Set[int]], start: Set[int]) -> set[int]:
    """These events, and all their dependencies."""
    found, left = set(start), list(start)
    while left:
        further = needs[left.pop()] - found
        found |= further
        left += further
    return found


def behind_looks(program: OuterProgram, lines: Set[tuple[str, int]] | None = None) -> set[int]:
    """The events that produce the values read by a script, on these lines of its files or on all.

    Including those of the lines themselves. What Python derives from a number is not tracked.
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
    """The events that create these values, and the last ones that change them."""
    storages = [program.storages[name] for name in values if name in program.storages]
    return {made[name] for name in values if name in made} | {changed[one] for one in storages if one in changed}


def direct_needs(program: OuterProgram) -> list[frozenset[int]]:
    """The direct dependencies of each event, by index.

    Of the events that change a storage or a gradient, only the last one: it depends on the previous change.
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


def read_later(program: OuterProgram) -> list[tuple[str, ...]]:
    """For each graph call or backward, the results of earlier graph calls whose values are read after it.

    Views of a result count as well. Creating a view does not read, nor does overwriting a whole tensor; after an
    in-place change, the earlier values are no longer read.
    """
    memory, events = program.storages, program.events
    returned, made, order = set[int](), dict[str, int](), list[str]()
    for index, event in enumerate(events):
        returned |= {memory[name] for name in event.makes if event.kind == GRAPH and name in memory}
        for name in event.makes:
            if name not in made and memory.get(name) in returned:
                made[name] = index
                order.append(name)
    looks, alive, whole = list(program.looks), set[str](), _whole(program)
    found: list[tuple[str, ...]] = [()] * len(events)
    for index in reversed(range(len(events))):
        while looks and looks[-1].after > index:
            alive.update(looks.pop().values)
        event = events[index]
        if event.kind in (GRAPH, BACKWARD):
            own = {*event.makes, *event.writes}
            found[index] = tuple(name for name in order if made[name] < index and name in alive and name not in own)
        alive = _before(program, index, alive, whole)
    return found


def watched(alive: Sequence[str], storages: Mapping[str, int]) -> tuple[str, ...]:
    """The latest of these results, in order: as many as can be copied."""
    kept: list[str] = []
    of: dict[int, int] = {}
    for name in reversed(alive):
        place = storages[name]
        if of.get(place, 0) < MOST_ALIVE and (place in of or len(of) < MOST_ALIVE):
            of[place] = of.get(place, 0) + 1
            kept.append(name)
    return tuple(reversed(kept))


def _before(program: OuterProgram, index: int, after: Set[str], whole: Set[str]) -> set[str]:
    """The values read by an event or later, given those read ``after`` it; ``whole``: from `_whole`."""
    memory, event = program.storages, program.events[index]
    changed = {memory.get(name) for name in event.writes}
    results = {memory.get(name) for name in (*event.makes, *event.writes)}
    before = {name for name in after if name not in event.makes or name in event.writes}
    filled = _fill(event)
    if filled is not None:
        place, is_all = memory.get(filled), filled in whole and ".set_(" not in event.code
        before = {name for name in before if name != filled and not (is_all and memory.get(name) == place)}
    unread = _unread(event)
    for name in event.reads & memory.keys():
        place = memory[name]
        if name in unread:
            is_read = False
        elif place in changed or event.kind in (GRAPH, BACKWARD) or results - {place}:
            is_read = True
        else:
            is_read = any(one in after for one in event.makes)  # through its views
        if is_read:
            before.add(name)
    return before


def _whole(program: OuterProgram) -> set[str]:
    """The results of graphs that are no views: values that share their storage are views of them."""
    owners: dict[int, str] = {program.storages[name]: "" for name in program.inputs if name in program.storages}
    for event in program.events:
        for name in event.makes:
            place = program.storages.get(name)
            if place is not None and name != owners.get(place):
                if event.kind == GRAPH:  # of two results in one storage, neither is the whole
                    owners[place] = "" if place in owners else name
                else:
                    owners.setdefault(place, "")
    return set(owners.values()) - {""}


def _fill(event: Event) -> str | None:
    """The tensor that an event overwrites without reading it."""
    filled = FILLS.match(event.code)
    name = filled[1] if filled is not None and filled[1] in event.writes else None
    is_target = name is not None and event.code.startswith(f"{name} = ")
    return name if name is not None and len(re.findall(rf"\b{name}\b", event.code)) == 1 + is_target else None


def _unread(event: Event) -> set[str]:
    """The names in an event whose values it does not read: it overwrites them, uses their shape, or starts a backward
    there.
    """
    found = [_fill(event) or ""]
    if event.kind == BACKWARD:
        root = ROOTS.search(event.code)
        found += re.findall(r"\w+", root[1] or root[2]) if root is not None else []
    else:
        found += [name for groups in OF_SHAPE.findall(event.code) for name in groups]
    body = event.code.partition(" = ")[2] or event.code
    return {name for name in found if name and (name == found[0] or len(re.findall(rf"\b{name}\b", body)) == 1)}
