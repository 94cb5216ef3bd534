"""Compares what two plain runs of a script print, by its words: numbers differ by rounding, and by random numbers of another stream."""

from __future__ import annotations

import re
from itertools import zip_longest

_NUMBER = re.compile(
    r"0x[0-9a-f]+|(?<![\w.])[-+]?\d[\d_]*([.:]\d+)*\.?(e[-+]?\d+)?j?(\s?([kmg]i?b|bytes?|[nuµm]?s|sec(onds?)?|min(utes?)?)\b)?",
    re.I,
)
"""A number with its unit, by which times and sizes are printed. Not ``nan`` and ``inf``: these are words."""
_LIST = re.compile(r"#(,\s*#)+")
"""Several of them: where a tensor breaks its lines depends on its widest number."""
NOTHING = "nothing"


def words_of(printed: str) -> list[str]:
    """Its lines with ``#`` in the place of numbers and of lists of them."""
    masked = _LIST.sub("#", _NUMBER.sub("#", printed))
    return [" ".join(line.split()) for line in masked.splitlines()]


def first_difference(one: str, other: str) -> tuple[str, str] | None:
    """The first lines whose words differ, without their numbers; None if no words do."""
    pairs = zip_longest(words_of(one), words_of(other), fillvalue=NOTHING)
    return next((pair for pair in pairs if pair[0] != pair[1]), None)
