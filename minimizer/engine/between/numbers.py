"""How far the numbers in two entries of a look are apart, where nothing but numbers differs."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from math import inf, isfinite, isnan

from minimizer.engine.child.exact_log import Entry

WRITTEN = ("values", "items", "value")
FIELDS = {*WRITTEN, "norm", "lean"}
"""The fields of an entry that may hold numbers."""
LEGAL_LOW = 3e-2
"""A bound on legal rounding in low precision, relative to the largest number."""
_NUMBER = re.compile(r"[+-]?\d+(?:\.\d+)?(?:e[+-]?\d+)?|\bnan\b|-?\binf\b")


@dataclass(frozen=True)
class Apart:
    """The largest difference between numbers, as it is and relative to the largest number; infinite where only one is finite."""

    absolute: float
    relative: float


def apart(one: Entry, two: Entry) -> Apart | None:
    """How far two entries are apart in their first field of numbers that differs; None if there are no numbers to compare."""
    if "norm" in one and "norm" in two:
        sides = [_numbers(f"{side['norm']} {side.get('lean', '')}") for side in (one, two)]
        return _apart(*sides) if len(sides[0]) == len(sides[1]) else None
    for name in WRITTEN:
        one_text, two_text = one.get(name, ""), two.get(name, "")
        if one_text != two_text:
            if _NUMBER.sub("#", one_text) != _NUMBER.sub("#", two_text) or "." not in one_text + two_text:
                return None
            return _apart(_numbers(one_text), _numbers(two_text))
    return None


def largest(entries: Iterable[Entry]) -> float:
    """The largest finite number in some entries; of a tensor whose values are not written out, its norm."""
    texts = (entry.get(next((name for name in ("norm", *WRITTEN) if name in entry), ""), "") for entry in entries)
    written = (text.partition("#")[0] for text in texts)  # a hash follows
    return max((abs(n) for text in written for n in _numbers(text) if isfinite(n)), default=0.0)


def _numbers(text: str) -> list[float]:
    return [float(number) for number in _NUMBER.findall(text)]


def _apart(one: list[float], two: list[float]) -> Apart:
    pairs = [(a, b) for a, b in zip(one, two, strict=True) if a != b and not (isnan(a) and isnan(b))]
    if not pairs:
        return Apart(0.0, 0.0)
    if not all(isfinite(a) and isfinite(b) for a, b in pairs):
        return Apart(inf, inf)
    absolute = max(abs(a - b) for a, b in pairs)
    return Apart(absolute, absolute / max(abs(n) for n in [*one, *two] if isfinite(n)))
