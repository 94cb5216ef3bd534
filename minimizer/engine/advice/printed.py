"""Compares the printed output of two runs: text exactly, numbers within rounding, skipping lines that vary by
themselves.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection

NUMBER = re.compile(r"(?<![\w.])[-+]?(?:\d++(?:\.\d*+)?|\.\d++)(?:[eE][-+]?\d++)?(?![\w.]*\w)|\b(?:nan|inf)\b")
MOST_OF_A_LINE = 2000
"""Characters of the longest line whose numbers are parsed; longer ones are compared exactly."""
RELATIVE, ABSOLUTE = 1e-3, 1e-5
"""Tolerance of a number: a change of the script rounds otherwise, and a few steps of training propagate that."""


def difference(before: str, after: str, but: Collection[int] = ()) -> str:
    """The first differing line, in words; empty if none. ``but``: numbers of lines that are not compared."""
    old, new = before.splitlines(), after.splitlines()
    for number, (one, other) in enumerate(zip(old, new, strict=False)):
        if number not in but and not _agree(one, other):
            return f"it prints {_quoted(other)} where it printed {_quoted(one)}"
    if len(old) != len(new):
        return f"it prints {len(new)} lines where it printed {len(old)}"
    return ""


def varying(before: str, again: str) -> set[int] | None:
    """The numbers of lines that differ between two runs of one text; None if their line counts differ."""
    old, new = before.splitlines(), again.splitlines()
    if len(old) != len(new):
        return None
    return {number for number, (one, other) in enumerate(zip(old, new, strict=True)) if not _agree(one, other)}


def is_in_another_order(before: str, after: str) -> bool:
    """Whether the lines are the same, in another order."""
    return before != after and sorted(before.splitlines()) == sorted(after.splitlines())


def _agree(one: str, other: str) -> bool:
    if max(len(one), len(other)) > MOST_OF_A_LINE:
        return one == other
    if NUMBER.sub("\0", one) != NUMBER.sub("\0", other):
        return False
    pairs = zip(map(float, NUMBER.findall(one)), map(float, NUMBER.findall(other)), strict=False)
    return all(
        a == b or (math.isnan(a) and math.isnan(b)) or math.isclose(a, b, rel_tol=RELATIVE, abs_tol=ABSOLUTE)
        for a, b in pairs
    )


def _quoted(line: str) -> str:
    return f"“{line[:80]}{'…' if len(line) > 80 else ''}”"
