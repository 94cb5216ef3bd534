"""The first difference of two exact runs, less what differs between two runs without the compiler."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import zip_longest

from minimizer.engine.child.exact_log import Entry, ExactLog, Look

ABSENT: Entry = {}
STATE_FIELDS = ("items", "keys", "length", "attributes", "value", "state", "maxlen", "code")
WEAK_FIELDS = {"order"}
"""Fields whose difference alone is no evidence: the order in which attributes were set."""
_PARENT = re.compile(r"^(?:list\((?P<keyed>.*)\)\[\d+\]|(?P<front>.*?)(?:\.[\w<>]+|\[[^\[\]]*\]))$")
NUMBERS = {"values", "items", "value", "norm", "lean"}
_NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?:e[+-]?\d+)?|\bnan\b|-?\binf\b")
LEGAL, LEGAL_LOW = 1e-5, 3e-2
"""Bounds on legal rounding, relative to the largest number: in float32, and where a lower precision is in use."""
LOW = re.compile(r"bfloat16|float16|float8")
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
        return set(self.fields) <= NUMBERS and self.rounding is not None

    @property
    def rounding(self) -> float | None:
        """The largest difference of the numbers, relative to the largest number; None if there are none to compare."""
        if "norm" in self.eager and "norm" in self.compiled:
            sides = [_numbers(f"{side['norm']} {side.get('lean', '')}") for side in (self.eager, self.compiled)]
            return _apart(*sides) if len(sides[0]) == len(sides[1]) else None
        for name in ("values", "items", "value"):
            one_text, two_text = self.eager.get(name, ""), self.compiled.get(name, "")
            if one_text != two_text:
                if _NUMBER.sub("#", one_text) != _NUMBER.sub("#", two_text) or "." not in one_text + two_text:
                    return None
                return _apart(_numbers(one_text), _numbers(two_text))
        return None


@dataclass(frozen=True)
class Difference:
    """The first look at which two runs differ, and all changes there."""

    look: Look
    changes: tuple[Change, ...]
    before: Look | None
    """The previous look of the same sort (full or not), at which nothing differs."""
    index: int = 0

    @property
    def first(self) -> Change:
        """The change to name in the report."""
        return min(self.changes, key=lambda change: change.rank)

    @property
    def is_of_state(self) -> bool:
        """Whether anything but numbers, the results of calls and the position in a stream of random numbers differs."""
        return any(not change.is_value and not change.is_result and change.kind != "stream" for change in self.changes)

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


def first_difference(eager: ExactLog, compiled: ExactLog, noise: Noise | None = None) -> Difference | None:
    """The first look at which two runs differ; None if they do not, or if the difference is no evidence.

    If one run has a moment that the other lacks, they diverged earlier, unseen: that is no evidence.
    """
    noise = noise if noise is not None else Noise()
    before: dict[bool, Look | None] = {True: None, False: None}
    for index, (first, second) in enumerate(zip_longest(eager.states(), compiled.states())):
        if first is None or second is None or first[0].moment != second[0].moment or index == noise.ends_at:
            return None
        changes = tuple(c for c in _changes(first[1], second[1]) if c.is_evidence and not noise.covers(c.path))
        if any(c.path == "raised" and "of" in c.compiled for c in changes):
            return None  # Dynamo raises an error of its own: not a silent fault
        if any(c.is_value and (c.rounding or 0.0) <= _legal(first[1], changes) for c in changes):
            return None  # one of the values was rounded differently, and the other changes may follow from that
        if changes:
            return Difference(second[0], changes, before[second[0].full], index)
        before[second[0].full] = second[0]
    return None


def difference_at_end(eager: ExactLog, compiled: ExactLog) -> tuple[Change, ...]:
    """All changes between two runs at the end of the script."""
    ends = [next((state for look, state in log.states() if look.event == "end"), {}) for log in (eager, compiled)]
    return tuple(_changes(*ends))


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


def _numbers(text: str) -> list[float]:
    return [float(number) for number in _NUMBER.findall(text)]


def _apart(one: list[float], two: list[float]) -> float:
    pairs = list(zip(one, two, strict=True))
    largest = max((max(abs(a), abs(b)) for a, b in pairs), default=0.0)
    apart = max((abs(a - b) for a, b in pairs if a != b), default=0.0)
    return apart / largest if largest > 0 and apart == apart else float("inf") if apart else 0.0


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
