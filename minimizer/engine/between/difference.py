"""The first difference of two exact runs, minus what differs between two runs without the compiler."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest

from minimizer.engine.between.noise import ROUNDS, Excused, Noise, is_arithmetic
from minimizer.engine.child.exact_log import Entry, ExactLog, Look

ABSENT: Entry = {}
STATE_FIELDS = ("items", "keys", "length", "attributes", "value", "state", "maxlen", "code")
WEAK_FIELDS = {"order"}
"""Fields whose difference alone is no evidence: the order in which attributes were set."""
WRITTEN_OUT = ("printed text", "files written")
"""Prefixes of the paths of printed text and of written files, which are looked at after the script's end."""
ROOTS = ("result", "args[", "kwargs[", "compiled")
COURSE = "course"
"""The path of a difference in the course of the script: another number of calls, another end."""


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
        """Whether it is evidence: not for `WEAK_FIELDS`, nor for the random streams of a GPU, which Dynamo itself
        starts.
        """
        is_of_gpu = self.kind == "stream" and self.field == "presence"
        return not is_of_gpu and not set(self.fields) <= WEAK_FIELDS

    @property
    def is_result(self) -> bool:
        return self.path.startswith("result")

    @property
    def lacks(self) -> bool:
        """Whether a container lacks, with the compiler, items that eager has put into it."""
        eager, compiled = (side.get("length", "") for side in (self.eager, self.compiled))
        return eager.isdecimal() and compiled.isdecimal() and int(eager) > int(compiled)

    @property
    def rank(self) -> tuple[int, bool, int, int]:
        """Priority for naming a change, smallest first.

        The script's state before results, containers that lack items before values computed from them, short paths
        first.
        """
        place = 5 if self.path.startswith(ROOTS) else 0
        if self.kind == "process":
            place = 1
        elif self.path in ("raised", COURSE):
            place = -1
        elif self.path.startswith(WRITTEN_OUT):
            place = 7
        elif self.kind in ("stream", "environment"):
            place = 6
        elif self.field == "presence" or self.field == "alias":
            place += 1
        elif ("values" in self.fields and self.kind != "result") and place == 0:
            place = 2
        return place, not self.lacks, self.path.count(".") + self.path.count("["), len(self.path)

    @property
    def is_arithmetic(self) -> bool:
        """Whether only values of floating-point numbers differ, which other arithmetic may explain if it is shown."""
        return is_arithmetic(self.eager, self.compiled)

    def is_repeated_by(self, other: Change, compiled: Sequence[Entry]) -> bool:
        """Whether further runs show the same: any arithmetic; for other changes a field with one value in all compiled
        runs.

        Args:
            other: the change in two further runs.
            compiled: the entries of all compiled runs.
        """
        if self.is_arithmetic and other.is_arithmetic:
            return True
        both = set(self.fields) & set(other.fields)
        return any(len({entry.get(name) for entry in compiled}) == 1 for name in both)


@dataclass(frozen=True)
class Difference:
    """The first look at which two runs differ, and all changes there."""

    look: Look
    changes: tuple[Change, ...]
    before: Look | None
    """The previous look of the same type (full or not), at which nothing differs."""
    index: int = 0

    @property
    def is_of_course(self) -> bool:
        """Whether the runs diverge here: one reaches another moment than the other."""
        return self.changes[0].path == COURSE

    @property
    def is_arithmetic(self) -> bool:
        """Whether only values of floating-point numbers differ."""
        return all(change.is_arithmetic for change in self.changes)

    @property
    def first(self) -> Change:
        """The change to name in the report."""
        return min(self.changes, key=lambda change: change.rank)

    @property
    def is_of_results(self) -> bool:
        """Whether only numbers and results of calls differ."""
        return all(change.is_arithmetic or change.is_result for change in self.changes)

    @property
    def paths(self) -> frozenset[str]:
        return frozenset(change.path for change in self.changes)


@dataclass(frozen=True)
class Comparison:
    """The result of comparing two runs.

    ``ended``: the look at which the comparison ended, if before the runs did. ``excused``: earlier differences that
    were no evidence.
    """

    difference: Difference | None = None
    ended: Look | None = None
    excused: Excused = field(default_factory=Excused)


def compared(eager: ExactLog, compiled: ExactLog, noise: Noise | None = None) -> Comparison:
    """Compare two runs to the bit, up to the first difference that is evidence.

    If one run reaches another moment than the other, that is the difference, unless runs without the compiler diverge
    as well. If one side may round otherwise, the comparison ends at the first floating-point number that differs.
    """
    noise = noise if noise is not None else Noise()
    noise.excused.clear()
    before: dict[bool, Look | None] = {True: None, False: None}

    def comparison(difference: Difference | None = None, ended: Look | None = None) -> Comparison:
        return Comparison(difference, ended, noise.excused.copy())

    for index, (first, second) in enumerate(zip_longest(eager.states(), compiled.states())):
        looks = [side[0] for side in (second, first) if side is not None]
        if index == noise.ends_at:
            return comparison(ended=looks[0])
        if first is None or second is None or first[0].moment != second[0].moment:
            if not (eager.is_whole and compiled.is_whole):
                return comparison(ended=looks[0])
            course = Change(COURSE, *(_course(side[0] if side else None) for side in (first, second)))
            return comparison(Difference(looks[0], (course,), before[True], index))
        changes = evidence(first[1], second[1], noise, is_end=first[0].event == "end")
        if any(c.path == "raised" and "of" in c.compiled for c in changes):
            return comparison(ended=second[0])  # an error of Dynamo's own is not a silent fault
        if noise.rounds and any(rule == ROUNDS for rule, _ in noise.excused):
            return comparison(ended=second[0])  # later differences may follow from a rounding
        if changes:
            return comparison(Difference(second[0], changes, before[second[0].full], index))
        before[second[0].full] = second[0]
    return comparison()


def first_difference(eager: ExactLog, compiled: ExactLog, noise: Noise | None = None) -> Difference | None:
    """The first look at which two runs differ; None if they do not, or if the difference is no evidence."""
    return compared(eager, compiled, noise).difference


def agree_at(log: ExactLog, other: ExactLog, difference: Difference) -> bool:
    """Whether two runs see the same at a difference, to the bit, on every path that differed."""
    if difference.is_of_course:
        return _moment(log, difference.index) == _moment(other, difference.index)
    if any(len(run.looks) <= difference.index for run in (log, other)):
        return False
    if log.looks[difference.index].moment != other.looks[difference.index].moment:
        return False
    mine, theirs = (states_at(run, difference.index) for run in (other, log))
    return all(mine.get(path, ABSENT) == theirs.get(path, ABSENT) for path in difference.paths)


def difference_at_end(eager: ExactLog, compiled: ExactLog) -> tuple[Change, ...]:
    """All changes between two runs at the end of the script."""
    return tuple(_changes(end_of(eager), end_of(compiled)))


def end_of(log: ExactLog) -> dict[str, Entry]:
    """The state at the end of the script, by path."""
    return next((state for look, state in log.states() if look.event == "end"), {})


def evidence(
    eager: Mapping[str, Entry], compiled: Mapping[str, Entry], noise: Noise, *, is_end: bool
) -> tuple[Change, ...]:
    """All changes at one look that are evidence and not noise."""
    changes = (change for change in _changes(eager, compiled) if change.is_evidence)
    return tuple(c for c in changes if not noise.covers(c.path, eager, compiled, is_end=is_end))


def _course(look: Look | None) -> Entry:
    """The entry for the moment that a run reaches."""
    if look is None:
        return {"type": COURSE, "value": "no further call"}
    what = (
        "the end of the script"
        if look.event == "end"
        else f"{look.event.partition(' ')[0]} {look.number}, line {look.line}"
    )
    return {"type": COURSE, "value": what}


def _moment(log: ExactLog, index: int) -> object:
    return log.looks[index].moment if index < len(log.looks) else None


def states_at(log: ExactLog, index: int) -> dict[str, Entry]:
    """The state at the look with this index, by path."""
    for place, (_, state) in enumerate(log.states()):
        if place == index:
            return dict(state)
    return {}


def _changes(eager: Mapping[str, Entry], compiled: Mapping[str, Entry]) -> Iterator[Change]:
    for path in dict.fromkeys([*eager, *compiled]):
        one, two = eager.get(path, ABSENT), compiled.get(path, ABSENT)
        if one != two:
            yield Change(path, one, two)
