"""Counts how often a rule that masks, skips, widens, samples, bounds or gives up was applied, and to what.

The rules themselves, with a sentence and a reason for each, are in ``minimizer/excuses.py`` on the torch-free side; here they are
named by text, always a literal, and a test holds these names against that table.
"""

from __future__ import annotations

from collections import Counter

from .messages import Excused

MOST_ROWS = 100
"""Rules and objects that are told one by one; of further objects only the rule is told."""
MOST_CHARACTERS = 200


class Excuses:
    """The rules that were applied in one run, with their objects."""

    def __init__(self) -> None:
        self._counts: Counter[tuple[str, str]] = Counter()

    def excuse(self, rule: str, what: str = "", times: int = 1) -> None:
        """Count an application of a rule; ``what`` names the graph, the place or the object that it was applied to."""
        key = rule, what[:MOST_CHARACTERS]
        self._counts[key if key in self._counts or len(self._counts) < MOST_ROWS else (rule, "")] += times

    def rows(self) -> list[Excused]:
        """All counts, in the order in which the rules were first applied."""
        return [Excused(rule, what, times) for (rule, what), times in self._counts.items() if times]
