"""Excuses of a job, as counted in its report, and the sentence on what a healthy verdict left open."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol, TypeVar

from pydantic import Field

from minimizer.excuses import EXCUSES
from minimizer.report.part import Part
from minimizer.vocabulary import counted

MOST_NAMED = 3
"""Excuses that the first sentence of a verdict names; the others are in the list."""
MOST_OBJECTS = 2
"""Most named objects of an excuse in that sentence."""


class Excused(Part):
    """A rule by which a job did not look, or saw and excused, and how often."""

    rule: str = Field(description="A name of the table in `minimizer/excuses.py`, which docs/report.md explains.")
    object: str = Field(
        "", description="What it was applied to: a graph, a place, an object; empty for the whole script."
    )
    count: int = 1

    @property
    def leaves_open(self) -> bool:
        """Whether something of the main line was not compared at all; a rule that is not known leaves everything open."""
        return self.rule not in EXCUSES or EXCUSES[self.rule].leaves_open

    @property
    def sentence(self) -> str:
        """The rule as a sentence without its period."""
        return EXCUSES[self.rule].sentence if self.rule in EXCUSES else self.rule.replace("_", " ")

    @property
    def words(self) -> str:
        """The sentence with the objects that it was applied to, and how often."""
        told = [self.object] if self.object else []
        told += [counted(self.count, "time")] if self.count > 1 else []
        return self.sentence + (f" ({', '.join(told)})" if told else "")


def excused(rule: str, what: str = "", count: int = 1) -> Excused:
    """An excuse of the engine; ``rule`` is a name in `EXCUSES`, written out where the rule is applied.

    Raises:
        KeyError: there is no such rule.
    """
    return Excused(rule=EXCUSES[rule].name, object=what[:300], count=count)


class Counted(Protocol):
    """A rule, the object that it was applied to, and how often."""

    @property
    def rule(self) -> str: ...
    @property
    def object(self) -> str: ...
    @property
    def count(self) -> int: ...


One = TypeVar("One", bound=Counted)


def merged(*several: Iterable[One]) -> list[One]:
    """The excuses of several looks at one script: of equal ones the larger count."""
    found: dict[tuple[str, str], One] = {}
    for one in (each for some in several for each in some):
        known = found.get((one.rule, one.object))
        if known is None or known.count < one.count:
            found[one.rule, one.object] = one
    return list(found.values())


def left_open(excuses: Iterable[Excused]) -> str:
    """The first sentence of a healthy verdict with main-line gaps; empty without any."""
    by_rule: dict[str, list[Excused]] = {}
    for one in excuses:
        if one.leaves_open:
            by_rule.setdefault(one.rule, []).append(one)
    if not by_rule:
        return ""
    parts = [_part(rows) for rows in list(by_rule.values())[:MOST_NAMED]]
    more = [f"and {counted(len(by_rule) - MOST_NAMED, 'more reason')}"] if len(by_rule) > MOST_NAMED else []
    return f"Not everything was compared: {'; '.join([*parts, *more])}."


def _part(rows: list[Excused]) -> str:
    sentence = rows[0].sentence
    objects = [one.object for one in rows if one.object]
    named = [*objects[:MOST_OBJECTS], *([f"{len(objects) - MOST_OBJECTS} more"] if len(objects) > MOST_OBJECTS else [])]
    return sentence[:1].lower() + sentence[1:] + (f" ({', '.join(named)})" if named else "")
