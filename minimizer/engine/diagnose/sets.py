"""Set-wise search for the blame, over parts of the compiler that can be switched off and settings that can be changed.

The search is abstract: it knows neither what a part is nor how a trial is run. `Asker` gets a function that answers for
a `Setting`.

A bisection by count, as PyTorch has it, assumes that one application of one part is the cause. Here any set may be:
parts of which each alone is enough (all must be off), and parts that only fail together (any may be off). Both are
found by the minimizing delta debugging of Zeller and Hildebrandt (2002), first on what must be off, then on what must
be on.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

Parts = frozenset[str]
AT_ONCE = 2
"""Groups of settings tried in parallel; their results are reported before the next ones begin."""


class Answer(StrEnum):
    """The answer of a trial; ``OTHER``: it failed in another way, which says nothing about the failure in question."""

    FAILS = "fails"
    PASSES = "passes"
    OTHER = "other"


@dataclass(frozen=True)
class Setting:
    """The changes for a trial: parts that are ``off``, kinds of which ``only`` some parts are on, lines of setup."""

    off: Parts = frozenset()
    only: tuple[tuple[str, Parts], ...] = ()
    lines: tuple[str, ...] = ()


@dataclass(frozen=True)
class Seen:
    """An answer, and for each queried part of the compiler, by name, whether it made a difference."""

    answer: Answer
    parts: Mapping[str, bool] = field(default_factory=dict)


@dataclass(frozen=True)
class Blame:
    """The parts to blame.

    ``confirmed``: the failure disappears without them, and returns with only them on of all their kinds (and the parts
    that the compiler cannot do without). ``any_of``: each of several parts is enough by itself; else they fail
    together.
    """

    parts: tuple[str, ...]
    any_of: bool
    confirmed: bool


Ask = Callable[[Sequence[Setting]], list[Seen]]


class Asker:
    """Tries settings, each once, and counts the runs.

    A flaky failure may pass by chance: a pass counts after ``repeats`` in a row, a failure at once.
    """

    def __init__(self, ask: Ask, repeats: int = 1) -> None:
        self._ask, self._repeats = ask, repeats
        self._known: dict[Setting, Seen] = {}
        self.runs = 0

    def all(self, settings: Sequence[Setting]) -> list[Seen]:
        """The answers to several settings, which may be tried in parallel."""
        open_ = [s for s in dict.fromkeys(settings) if s not in self._known]
        for _ in range(self._repeats):
            self.runs += len(open_)
            self._known.update(zip(open_, self._ask(open_) if open_ else (), strict=True))
            open_ = [s for s in open_ if self._known[s].answer is Answer.PASSES]
        return [self._known[s] for s in settings]

    def one(self, setting: Setting) -> Seen:
        """The answer to one setting."""
        return self.all([setting])[0]

    @property
    def fails_otherwise(self) -> bool:
        """Whether any setting failed in another way."""
        return any(seen.answer is Answer.OTHER for seen in self._known.values())


def kind_of(part: str) -> str:
    """The kind of a part: ``lowerings`` for ``lowerings/aten.relu.default``."""
    return part.partition("/")[0]


def blame(ask: Asker, groups: Iterable[Collection[str]]) -> list[Blame]:
    """The blame in each group of kinds that has one; empty if the failure does not show without a change.

    A part may begin to act only once another is off. So the set that is off grows by the parts that then made a
    difference, until the failure is gone or nothing is left to switch off.
    """
    base = ask.one(Setting())
    if base.answer is not Answer.FAILS:
        return []
    return [found for kinds in groups if (found := _in_group(ask, base, kinds)) is not None]


def _in_group(ask: Asker, base: Seen, kinds: Collection[str]) -> Blame | None:
    enough = _enough(ask, base, kinds)
    if enough is None:
        return None

    def goes(sets: Sequence[Parts]) -> list[bool]:
        return [seen.answer is Answer.PASSES for seen in ask.all([Setting(off=off) for off in sets])]

    def comes(sets: Sequence[Parts]) -> list[bool]:
        settings = [Setting(only=tuple((kind, on) for kind in kinds)) for on in sets]
        return [seen.answer is Answer.FAILS for seen in ask.all(settings)]

    off = smallest(enough, goes)
    if comes([off])[0]:
        alone = len(off) > 1 and any(comes([Parts([part]) for part in off]))
        return Blame(tuple(sorted(off)), any_of=alone, confirmed=True)
    used = Parts(_acted(base, kinds)) | off
    if not comes([used])[0]:
        return Blame(tuple(sorted(off)), any_of=False, confirmed=False)
    # Further parts are causes too, or are vital: without a vital one the program fails in another way. If the failure
    # stays without a part that `smallest` needed, another part can take its place.
    needed = sorted(smallest(used, comes) - off)
    without = [seen.answer for seen in ask.all([Setting(off=Parts([part])) for part in needed])]
    causes = [part for part, answer in zip(needed, without, strict=True) if answer is Answer.PASSES]
    confirmed = Answer.FAILS not in without
    return Blame(tuple(sorted({*off, *causes})), any_of=len(off) > 1 and not causes, confirmed=confirmed)


def _enough(ask: Asker, base: Seen, kinds: Collection[str]) -> Parts | None:
    """A set of parts without which the failure goes away; None if there is none."""
    off, vital, seen = Parts(), Parts(), base
    while True:
        if seen.answer is Answer.PASSES:
            return off
        if seen.answer is Answer.FAILS:
            more = Parts(_acted(seen, kinds)) - off - vital
            if not more:
                return None
            off |= more
        else:  # the compiler cannot do without some of them
            alone = {part: ask.one(Setting(off=Parts([part]))) for part in sorted(off)}
            passing = [part for part, seen in alone.items() if seen.answer is Answer.PASSES]
            if passing:
                return Parts(passing[:1])
            vital |= {part for part, seen in alone.items() if seen.answer is Answer.OTHER}
            if not off & vital or off <= vital:
                return None
            off -= vital
        seen = ask.one(Setting(off=off))


def _acted(seen: Seen, kinds: Collection[str]) -> list[str]:
    return [part for part, acted in seen.parts.items() if acted and kind_of(part) in kinds]


def smallest(parts: Parts, holds: Callable[[Sequence[Parts]], list[bool]]) -> Parts:
    """A subset that holds, and that is 1-minimal; ``parts`` are known to hold."""
    left, chunks = sorted(parts), 2
    while len(left) > 1:
        size = -(-len(left) // chunks)
        pieces = [left[at : at + size] for at in range(0, len(left), size)]
        rests = [[part for part in left if part not in piece] for piece in pieces] if len(pieces) > 2 else []
        candidates = [Parts(candidate) for candidate in (*pieces, *rests)]
        held = [candidate for candidate, does in zip(candidates, holds(candidates), strict=True) if does]
        if held:
            best = min(held, key=len)
            chunks = 2 if best in candidates[: len(pieces)] else max(2, len(pieces) - 1)
            left = sorted(best)
        elif size == 1:
            break
        else:
            chunks = min(len(left), 2 * chunks)
    return Parts(left)


def flips(ask: Asker, groups: Sequence[tuple[str, ...]], tell: Callable[[str, Answer], None]) -> None:
    """Try each of several lines of setup, and ``tell`` each answer as soon as it is known.

    The lines of a group are tried together, and `AT_ONCE` groups in parallel. If the failure stays with a whole group,
    it is assumed to stay with each line: a line that removes it is missed only if another of its group restores it.
    """
    pending = list(groups)
    while pending:
        split: list[tuple[str, ...]] = []
        now, pending = pending[:AT_ONCE], pending[AT_ONCE:]
        for lines, one in zip(now, ask.all([Setting(lines=lines) for lines in now]), strict=True):
            if one.answer is Answer.FAILS or len(lines) == 1:
                for line in lines:
                    tell(line, one.answer)
            else:
                split += [lines[: len(lines) // 2], lines[len(lines) // 2 :]]
        pending = split + pending
