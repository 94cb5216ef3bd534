"""Differences between two runs without the compiler, by path and field, which are therefore no evidence."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from itertools import zip_longest

from minimizer.engine.child.exact_log import Entry, ExactLog
from minimizer.report.excused import excused

VALUES = {"values", "norm", "lean", "not finite"}
"""The fields of a tensor that move together: one is a hash, the others show what it hides."""
WHOLE = {"type", "alias"}
"""Fields that invalidate the whole entry if they move: it then describes another object each time."""
MOVES, WRITTEN, VOLATILE = (
    excused("exact_moves").rule,
    excused("exact_compiler_writes").rule,
    excused("exact_volatile").rule,
)
"""Names of the rules by which a difference is no evidence, as counted."""
ROUNDS = excused("aot_rounds").rule
FLOATING = re.compile(r"^torch\.(float|bfloat|complex)")
FRACTION = re.compile(r"[-+]?(?:\d+\.\d*|\d*\.\d+|\d+(?=[eE]))(?:[eE][-+]?\d+)?|\b(?:nan|inf)\b")
"""Matches a number in a text that is not an integer."""
Excused = Counter[tuple[str, str]]
"""How often a rule was applied to an object: by (rule, path)."""
_PARENT = re.compile(
    r"^(?:list\((?P<keyed>.*)\)\[\d+\]|(?P<front>.*?)(?P<own>\.[\w<>]+|\[(?:'[^']*'|\"[^\"]*\"|[^\[\]]*)\]))$"
)
_POSITION = re.compile(r"\[\d+\]$|<items>")
State = Mapping[str, Entry]


class Noise:
    """The fields that differ between runs without the compiler, and what script functions wrote when the compiler ran
    them.

    What moves before the script's end does not count at the end, where all finalizers have run.
    """

    def __init__(self, *, rounds: bool = False) -> None:
        self.rounds = rounds
        """Whether one side may round otherwise: then floating-point numbers are no evidence, nor is anything they may
        decide.
        """
        self._fields: dict[bool, dict[str, set[str]]] = {True: {}, False: {}}
        """The fields that move, by path; separately for the look at the end (True)."""
        self._volatile: dict[bool, set[str]] = {True: set(), False: set()}
        """The containers whose items differ from run to run."""
        self._written: dict[str, str] = {}
        self.ends_at: int | None = None
        """Index of the look from which on two such runs do not even have the same moments."""
        self.excused: Excused = Counter()

    def learn(self, one: ExactLog, two: ExactLog) -> None:
        """Add all differences between two runs without the compiler."""
        for index, (first, second) in enumerate(zip_longest(one.states(), two.states())):
            if first is None or second is None or first[0].moment != second[0].moment:
                self.ends_at = index if self.ends_at is None else min(self.ends_at, index)
                return
            paths = dict.fromkeys([*first[1], *second[1]])
            self.learn_at(paths, first[1], second[1], is_end=first[0].event == "end")

    def learn_at(self, paths: Iterable[str], one: State, two: State, *, is_end: bool) -> None:
        """Add the differences on some paths between two runs at one look."""
        for path in paths:
            mine, theirs = one.get(path, {}), two.get(path, {})
            if mine == theirs:
                continue
            if not mine or not theirs:
                parent = parent_of(path)
                if parent is not None and (parent in one or parent in two):
                    self._volatile[is_end].add(parent)
            moving = {name for name in {*mine, *theirs} if mine.get(name) != theirs.get(name)}
            self._fields[is_end].setdefault(path, set()).update(moving)

    def add_written(self, paths: Mapping[str, str]) -> None:
        """Add what functions wrote that the script passed to the compiler, while it ran them: paths, each with the
        function.
        """
        self._written.update(paths)

    def without_moments(self) -> Noise:
        """The same noise without `ends_at`, for smaller scripts, which have other moments."""
        noise = Noise(rounds=self.rounds)
        noise._fields, noise._volatile, noise._written = self._fields, self._volatile, self._written
        return noise

    def covers(self, path: str, one: State, two: State, *, is_end: bool = False) -> bool:
        """Whether the difference at a path between two states also moves without the compiler; counted if so."""
        rule = self._rule(path, one, two, is_end=is_end)
        if rule:
            self.excused[rule, path] += 1
        return bool(rule)

    def _rule(self, path: str, one: State, two: State, *, is_end: bool) -> str:
        mine, theirs = one.get(path, {}), two.get(path, {})
        if self.rounds and (is_arithmetic(mine, theirs) or _is_text_of_numbers(mine, theirs)):
            return ROUNDS
        moving = self._fields[is_end].get(path, set())
        differing = {name for name in {*mine, *theirs} if mine.get(name) != theirs.get(name)}
        if moving and (moving & WHOLE or differing <= (moving | (VALUES if moving & VALUES else set()))):
            return MOVES
        if any(place in self._written for place in upwards(path)):
            return WRITTEN
        for item in upwards(path):
            parent = parent_of(item)
            is_loose = parent in self._volatile[is_end] and (item not in one or item not in two or _is_position(item))
            if is_loose:
                return VOLATILE
        return ""

    def __len__(self) -> int:
        return len(self._fields[True]) + len(self._fields[False])


def is_arithmetic(eager: Entry, compiled: Entry) -> bool:
    """Whether only values of floating-point numbers differ."""
    if not eager or not compiled:
        return False
    differing = {name for name in {*eager, *compiled} if eager.get(name) != compiled.get(name)}
    if FLOATING.match(eager.get("dtype", "")):
        return differing <= VALUES
    return (eager.get("type") or compiled.get("type")) in ("float", "complex") and differing == {"value"}


def _is_text_of_numbers(eager: Entry, compiled: Entry) -> bool:
    """Whether two texts are equal except for non-integer numbers."""
    one, two = eager.get("value", ""), compiled.get("value", "")
    return (
        one != two
        and {**eager, "value": ""} == {**compiled, "value": ""}
        and FRACTION.sub("", one) == FRACTION.sub("", two)
    )


def _is_position(path: str) -> bool:
    """Whether an item is named by its index, which means nothing if the items differ from run to run."""
    return path.startswith("list(") or _POSITION.search(path) is not None


def parent_of(path: str) -> str | None:
    """The path of the object that contains the one at a path; None for a root."""
    found = _PARENT.match(path)
    if found is None:
        return None
    parent = found["keyed"] or found["front"] or ""
    return parent.removesuffix(".values()").removesuffix(".<member>") or None


def upwards(path: str) -> Iterator[str]:
    """A path, then the path of each object that contains it."""
    place: str | None = path
    while place:
        yield place
        place = parent_of(place)
