"""The referee's verdict on one call."""

from __future__ import annotations

from dataclasses import dataclass, field

from ..rulings import Ruling
from ..values.boundary import Difference

STRIDE = "stride"
"""`Difference.what` of a difference in memory layout only."""


@dataclass
class Verdict:
    """The referee's verdict on one call.

    ``discrete`` without ``fault`` marks a suspect, which the caller must confirm locally. ``differences`` are those that count
    (faults, or suspects), or all of them if none counts; ``rules`` are the deciding rules by place, and ``why`` says more on
    ``rule``, for people. Errors are those of the worst place, relative to the norm of the fp64 truth. ``equals_itself``: see the function of that name; set for faults only, from
    eager's side. ``mechanism``: how the fault came about, where that is known: `DROPPED_CAST` or `OTHER_PRECISION`.
    """

    fault: bool = False
    kind: str | None = None
    rule: Ruling = Ruling.EQUAL
    why: str = ""
    discrete: bool = False
    nondeterministic: bool = False
    note: str = ""
    differences: list[Difference] = field(default_factory=list)
    compiled_error: float | None = None
    eager_error: float | None = None
    noise: float | None = None
    equals_itself: bool = False
    mechanism: str = ""
    rules: dict[str, Ruling] = field(default_factory=dict)
    excuses: list[str] = field(default_factory=list)
    """The rules of ``minimizer/excuses.py`` by which differences were excused, one for each place."""
    other_zeros: bool = False
    """Whether equal values have zeros of other signs. Set by trials, whose results may be inputs of what follows in a graph."""
    right: dict[str, str] = field(default_factory=dict)
    """The side that agrees with float64, ``eager`` or ``compiled``, at places where the other one does not."""

    @property
    def layout_only(self) -> bool:
        """Whether the fault is in memory layout only: all values are equal or legally rounded, and strides differ."""
        return self.fault and all(difference.what == STRIDE for difference in self.differences)

    @property
    def is_wrong(self) -> bool:
        """Whether it is a fault in more than memory layout."""
        return self.fault and not self.layout_only


def fault(differences: list[Difference], rule: Ruling, why: str = "") -> Verdict:
    """A fault by a rule, of the kind of its first difference."""
    return Verdict(fault=True, kind=differences[0].kind, rule=rule, why=why, differences=differences)


def excused(difference: Difference, rule: Ruling, note: str, *, excuse: str) -> Verdict:
    """A difference that a rule lets pass, by one of ``minimizer/excuses.py``."""
    return Verdict(rule=rule, note=note, differences=[difference], excuses=[excuse])
