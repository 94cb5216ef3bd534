"""An ordered table of rules for one question, and the loop over it: the first rule that decides counts.

`verdict_rules` has the rules for the verdict on a run, `dispute` those for a failing check of the script's own.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

Seen = TypeVar("Seen")
Verdict = TypeVar("Verdict", covariant=True)


@dataclass(frozen=True)
class Rule(Generic[Seen, Verdict]):
    """A rule: its name, the reason for it or for its position, its condition ``holds``, and the verdict.

    A verdict of None means that a further run did not confirm it, for instance because a call cannot be held again;
    later rules then decide.
    """

    name: str
    why: str
    holds: Callable[[Seen], bool]
    verdict: Callable[[Seen], Verdict | None]


Rules = tuple[Rule[Seen, Verdict], ...]
"""In order: the first that decides counts, and the last always does."""


def decide(rules: Rules[Seen, Verdict], seen: Seen) -> tuple[Rule[Seen, Verdict], Verdict]:
    """The first rule that decides, and its verdict."""
    for rule in rules:
        if rule.holds(seen) and (verdict := rule.verdict(seen)) is not None:
            return rule, verdict
    raise AssertionError(f"no rule holds, not even {rules[-1].name!r}")


def verdict_by(rules: Rules[Seen, Verdict], seen: Seen) -> Verdict:
    """The verdict of the first rule that decides."""
    return decide(rules, seen)[1]


def always(_: object) -> bool:
    return True
