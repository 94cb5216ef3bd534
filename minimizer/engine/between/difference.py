"""The first difference of two exact runs, less what differs between two runs without the compiler."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from math import inf

from minimizer.engine.between.numbers import FIELDS, LEGAL_LOW, Apart, apart, largest
from minimizer.engine.child.exact_log import Entry, ExactLog, Look

ABSENT: Entry = {}
STATE_FIELDS = ("items", "keys", "length", "attributes", "value", "state", "maxlen", "code")
WEAK_FIELDS = {"order"}
"""Fields whose difference alone is no evidence: the order in which attributes were set."""
_PARENT = re.compile(r"^(?:list\((?P<keyed>.*)\)\[\d+\]|(?P<front>.*?)(?:\.[\w<>]+|\[[^\[\]]*\]))$")
LEGAL = 1e-5
"""A bound on legal rounding in float32, relative to the largest number; `LEGAL_LOW` holds where a lower precision is in use."""
SPREAD = 8.0
"""A number is rounded differently if it is no further off than so many times what redrawn roundings move it."""
LOW = re.compile(r"bfloat16|float16|float8")
WRITTEN_OUT = ("printed text", "files written")
"""How the paths begin of what a script prints and of the files that it writes, which are looked at when it has ended."""
ROOTS = ("result", "args[", "kwargs[", "compiled")


@dataclass(frozen=True)
class Change:
    """A path whose entry differs with the compiler; the entry is empty on a side that lacks the object."""

    path: str
    eager: Entry
    compiled: Entry

    @property
    def fields(self) -> tuple[str, ...]:
        """The names of all fields that differ."""
        names = dict.fromkeys([*self.eager, *self.compiled])
        return tuple(name for name in names if self.eager.get(name) != self.compiled.get(name))

    @property
    def field(self) -> str:
        """The most telling field that differs; ``presence`` if the object exists on one side only."""
        fields = self.fields
        if not self.eager or not self.compiled:
            return "presence"
        return next((name for name in ("type", "alias", *STATE_FIELDS, "dtype", "shape") if name in fields), fields[0])

    @property
    def kind(self) -> str:
        """The type of the object that differs; ``alias`` for an entry without one."""
        return (self.eager or self.compiled).get("type", "alias")

    @property
    def is_evidence(self) -> bool:
        """Whether it is evidence: not for `WEAK_FIELDS` or the random streams of a GPU, which Dynamo itself starts."""
        is_of_gpu = self.kind == "stream" and self.field == "presence"
        return not is_of_gpu and not set(self.fields) <= WEAK_FIELDS

    @property
    def is_result(self) -> bool:
        return self.path.startswith("result")

    @property
    def rank(self) -> tuple[int, int, int]:
        """Order of preference for naming it, smallest first: the script's state before results, short paths first."""
        place = 5 if self.path.startswith(ROOTS) else 0
        if self.kind == "process":
            place = 1
        elif self.path == "raised":
            place = -1
        elif self.path.startswith(WRITTEN_OUT):
            place = 7
        elif self.kind in ("stream", "environment"):
            place = 6
        elif self.field == "presence" or self.field == "alias":
            place += 1
        elif ("values" in self.fields and self.kind != "result") and place == 0:
            place = 2
        return place, self.path.count(".") + self.path.count("["), len(self.path)

    @property
    def is_value(self) -> bool:
        """Whether only numbers differ: those of a tensor, or a Python float."""
        return set(self.fields) <= FIELDS and self.apart is not None

    @property
    def apart(self) -> Apart | None:
        """How far the numbers of both sides are apart; None if there are none to compare."""
        return apart(self.eager, self.compiled)


@dataclass(frozen=True)
class Difference:
    """The first look at which two runs differ, and all changes there."""

    look: Look
    changes: tuple[Change, ...]
    before: Look | None
    """The previous look of the same sort (full or not), at which nothing differs."""
    index: int = 0
    is_behind_rounding: bool = False
    """Whether a number was rounded differently before it or beside it, from which it may follow."""

    @property
    def may_be_rounding(self) -> bool:
        """Whether other roundings may explain it, as far as these two runs tell."""
        return self.is_behind_rounding or any(change.is_value for change in self.changes)

    @property
    def first(self) -> Change:
        """The change to name in the report."""
        return min(self.changes, key=lambda change: change.rank)

    @property
    def is_of_state(self) -> bool:
        """Whether anything but numbers, the results of calls and the position in a stream of random numbers differs."""
        return any(not change.is_value and not change.is_result and change.kind != "stream" for change in self.changes)

    @property
    def is_of_results(self) -> bool:
        """Whether nothing but numbers, and what calls return, differs."""
        return all(change.is_value or change.is_result for change in self.changes)

    @property
    def paths(self) -> frozenset[str]:
        return frozenset(change.path for change in self.changes)


class Noise:
    """The paths that differ between two runs without the compiler, and so are no evidence."""

    def __init__(self) -> None:
        self._paths: set[str] = set()
        self.ends_at: int | None = None
        """Index of the look from which on two such runs do not even have the same moments."""

    def learn(self, one: ExactLog, two: ExactLog) -> None:
        """Add all paths that differ between two runs without the compiler."""
        for index, (first, second) in enumerate(zip_longest(one.states(), two.states())):
            if first is None or second is None or first[0].moment != second[0].moment:
                self.ends_at = index if self.ends_at is None else min(self.ends_at, index)
                return
            self._paths.update(change.path for change in _changes(first[1], second[1]))

    def without_moments(self) -> Noise:
        """The same noise for smaller scripts, which have other moments: without `ends_at`."""
        noise = Noise()
        noise._paths = self._paths
        return noise

    def covers(self, path: str) -> bool:
        """Whether a path, or one that contains it, is noise."""
        return any(place in self._paths for place in _upwards(path))

    def __len__(self) -> int:
        return len(self._paths)


@dataclass(frozen=True)
class Comparison:
    """What a comparison of two runs comes to. ``ended``: the look at which it ended, where it ended before the runs did."""

    difference: Difference | None = None
    ended: Look | None = None


def compared(
    eager: ExactLog, compiled: ExactLog, noise: Noise | None = None, redrawn: Sequence[ExactLog] = ()
) -> Comparison:
    """Compare two runs up to the first difference that is evidence.

    What other roundings explain is none (`_is_rounding`). ``redrawn``: logs of eager runs with every rounding redrawn, which tell
    how far these reach. If one run has a moment that another lacks, they diverged earlier, unseen: the comparison ends.
    """
    noise = noise if noise is not None else Noise()
    before: dict[bool, Look | None] = {True: None, False: None}
    is_behind = False
    runs = zip_longest(*(log.states() for log in (eager, compiled, *redrawn)))
    for index, (first, second, *others) in enumerate(runs):
        moments = {side[0].moment if side is not None else None for side in (first, second, *others)}
        if len(moments) > 1 or index == noise.ends_at:
            return Comparison(ended=next(side[0] for side in (second, first, *others) if side is not None))
        changes = tuple(c for c in _changes(first[1], second[1]) if c.is_evidence and not noise.covers(c.path))
        if any(c.path == "raised" and "of" in c.compiled for c in changes):
            return Comparison(ended=second[0])  # Dynamo raises an error of its own: not a silent fault
        legal, states = _legal(first[1], changes), [other[1] for other in others]
        left = tuple(c for c in changes if not _is_rounding(c, legal, first[1], states))
        is_behind = is_behind or len(left) < len(changes)
        if left:
            return Comparison(Difference(second[0], left, before[second[0].full], index, is_behind))
        before[second[0].full] = second[0]
    return Comparison()


def first_difference(
    eager: ExactLog, compiled: ExactLog, noise: Noise | None = None, redrawn: Sequence[ExactLog] = ()
) -> Difference | None:
    """The first look at which two runs differ; None if they do not, or if the difference is no evidence."""
    return compared(eager, compiled, noise, redrawn).difference


def agree_at(log: ExactLog, other: ExactLog, difference: Difference, redrawn: Sequence[ExactLog] | None = None) -> bool:
    """Whether two runs see the same at a difference, on every path that differed: to the bit, or but for roundings.

    ``redrawn``: logs that tell how far roundings reach, none for what is legal in any case. None: to the bit.
    """
    if any(len(run.looks) <= difference.index for run in (log, other)):
        return False
    if log.looks[difference.index].moment != other.looks[difference.index].moment:
        return False
    mine, theirs = (states_at(run, difference.index) for run in (other, log))
    states = [states_at(run, difference.index) for run in redrawn or ()]
    changes = tuple(Change(path, theirs.get(path, ABSENT), mine.get(path, ABSENT)) for path in difference.paths)
    legal = _legal(theirs, changes)
    return all(not c.fields or (redrawn is not None and _is_rounding(c, legal, theirs, states)) for c in changes)


def is_gross(difference: Difference, eager: ExactLog) -> bool:
    """Whether it is more than any rounding may do to numbers as large as those that went into the call and came out of it."""
    state = states_at(eager, difference.index)
    of_call = [entry for path, entry in state.items() if path.startswith(ROOTS) and "dtype" in entry]
    legal = LEGAL_LOW * largest([*of_call, *(change.eager for change in difference.changes if change.is_value)])
    return not difference.is_behind_rounding and any(
        not c.is_value or (c.apart is not None and c.apart.absolute > legal) for c in difference.changes
    )


def difference_at_end(eager: ExactLog, compiled: ExactLog) -> tuple[Change, ...]:
    """All changes between two runs at the end of the script, but for numbers that are rounded differently."""
    ends = [next((state for look, state in log.states() if look.event == "end"), {}) for log in (eager, compiled)]
    changes = tuple(_changes(*ends))
    legal = _legal(ends[0], changes)
    return tuple(change for change in changes if not _is_rounding(change, legal, ends[0], ()))


def states_at(log: ExactLog, index: int) -> dict[str, Entry]:
    """All that was seen at the look with this index, by path."""
    for place, (_, state) in enumerate(log.states()):
        if place == index:
            return state
    return {}


def _changes(eager: dict[str, Entry], compiled: dict[str, Entry]) -> Iterator[Change]:
    for path in dict.fromkeys([*eager, *compiled]):
        one, two = eager.get(path, ABSENT), compiled.get(path, ABSENT)
        if one != two:
            yield Change(path, one, two)


def _legal(state: dict[str, Entry], changes: tuple[Change, ...]) -> float:
    is_autocast = any(
        "True" in state.get(f"torch.is_autocast_enabled('{d}')", {}).get("value", "") for d in ("cpu", "cuda")
    )
    is_low = is_autocast or any(LOW.search(c.eager.get("dtype", "")) or c.path.endswith(".grad") for c in changes)
    return LEGAL_LOW if is_low else LEGAL


def _is_rounding(change: Change, legal: float, eager: dict[str, Entry], redrawn: Sequence[dict[str, Entry]]) -> bool:
    """Whether other roundings explain a change: numbers that are no further apart than is legal, or than redrawn roundings move
    them; and anything else that redrawn roundings change too. ``redrawn``: what runs with those saw at this look."""
    gap = change.apart if change.is_value else None
    others = [Change(change.path, change.eager, state.get(change.path, ABSENT)) for state in redrawn]
    if gap is not None:
        spreads = [other.apart.absolute if other.apart else inf for other in others if other.fields]
        return gap.relative <= legal or gap.absolute <= SPREAD * max(spreads, default=0.0)
    if {*change.fields} <= {name for other in others for name in other.fields}:
        return True
    containers = [Change(p, eager.get(p, ABSENT), s.get(p, ABSENT)) for p in _upwards(change.path) for s in redrawn]
    return any(container.fields and not container.is_value for container in containers)


def _upwards(path: str) -> Iterator[str]:
    """A path, then the path of each object that contains it."""
    while path:
        yield path
        found = _PARENT.match(path)
        if found is None:
            return
        path = found["keyed"] or found["front"] or ""
        if path.endswith(".values()"):
            path = path.removesuffix(".values()")
