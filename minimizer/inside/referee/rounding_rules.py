"""Rules 8 to 10 of the referee: whether a difference between rounded values is more than rounding."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from types import EllipsisType
from typing import NamedTuple

import torch
from torch import Tensor

from ..rulings import Ruling
from ..values.boundary import Difference
from ..values.elements import default_tolerance, short
from ..values.magnitudes import magnitudes
from ..values.rounding import is_inexact
from .casts import DROPPED_CAST, drops_a_cast
from .distance import MARGIN, Distance, in_double, lost, outside, rounding_floor
from .flushing import moved_by_flushing
from .known import Known, OwnError
from .poles import Poles, Shows
from .reruns import Places, Reruns
from .verdict import Verdict, excused, fault

ULPS = 4
"""Units in the last place by which a compiled value may differ from eager if there is no fp64 truth."""
SMALL_MARGIN = 8
"""As `MARGIN`, for differences that ``assert_close`` would let pass."""
NEAR_POLE = "NaN or Inf near a pole"


class _Sides(NamedTuple):
    """The values of one place in double: of eager, of compiled code, and of the truth."""

    expected: Tensor
    actual: Tensor
    truth: Tensor

    def within(self, group: Tensor | EllipsisType) -> _Sides:
        return _Sides(*(side[group] for side in self))


@dataclass(frozen=True)
class _Rounding:
    """How a place is rounded, and by how many times eager's error compiled code may be off."""

    dtype: torch.dtype
    terms: int
    margin: float
    same_jumps: bool

    def is_exceeded(self, compiled: Distance, eager: Distance, sides: _Sides) -> bool:
        """Whether the finite elements of the compiled side are off by more than rounding explains."""
        floor = rounding_floor(self.dtype, self.terms)
        return compiled.exceeds(eager, floor, sides.truth, sides.expected, sides.actual, self.dtype, self.margin)


class RoundingRules:
    """Judges rounded values of one call, place by place, with reruns as needed.

    ``has_own_tolerance``: whether the script compares by a tolerance of its own, so that no value is a small one.
    """

    def __init__(
        self, runs: Reruns, known: Known, expected: Places, actual: Places, *, has_own_tolerance: bool
    ) -> None:
        self._runs, self._known, self._has_own_tolerance = runs, known, has_own_tolerance
        self._expected, self._actual = expected, actual

    def is_small(self, difference: Difference) -> bool:
        """Whether ``assert_close`` would let a difference pass, since the values are small beside 1."""
        return not self._has_own_tolerance and is_small(difference, self._expected[difference.where].dtype)

    def makes_nan(self, where: str) -> bool:
        """Whether compiled code has NaN where neither eager nor double precision has it, if the program can run in it, nor a pole explains it."""
        if not all(is_inexact(side[where]) for side in (self._expected, self._actual)):
            return False
        expected, actual = in_double(self._expected[where]), in_double(self._actual[where])
        made = actual.isnan() & ~expected.isnan()
        truth = self._runs.truth
        if bool(made.any()) and truth is not None and has_place(truth, where, self._expected):
            made &= ~in_double(truth[where]).isnan()
        return bool(self._off_poles(where, made, actual, expected, self._runs_behind_jump(where)).any())

    def by_fp64(self, difference: Difference, truth: Tensor, terms: int, *, same_jumps: bool = False) -> Verdict:
        """Apply rule 8 against ``truth``; with ``same_jumps`` the reruns with redrawn roundings take all jumps as eager did."""
        where, excuse = difference.where, "rounding"
        is_small = self.is_small(difference)
        sides = _Sides(in_double(self._expected[where]), in_double(self._actual[where]), in_double(truth))
        rounding = _Rounding(
            self._expected[where].dtype, terms, SMALL_MARGIN if is_small else MARGIN, same_jumps=same_jumps
        )
        ruling = self._beyond_rounding(where, sides, rounding)
        if ruling.fault and not same_jumps and (other := self._but_flushed(where, sides)) is not None:
            sides, excuse = other, "subnormal"
            ruling = self._beyond_rounding(where, sides, rounding)
        if ruling.fault:
            return replace(ruling, kind=difference.kind, differences=[difference])
        cast = None if same_jumps else self._without_a_cast(difference, sides.truth)
        compiled, eager = Distance.of(sides.actual, sides.truth), Distance.of(sides.expected, sides.truth)
        if is_small and cast is None:
            runs = self._first_at(where, same_jumps=same_jumps)
            self._learn(where, sides, eager.worst_of([Distance.of(run, sides.truth) for run in runs]))
        if excuse == "rounding" and ruling.note == NEAR_POLE:
            excuse = "near_pole"
        legal = excused(difference, Ruling.FP64, ruling.note, excuse=excuse)
        if not is_small and (side := _right_side(sides, rounding.dtype)) is not None:
            legal.right[where] = side
        return self._with_errors(cast or legal, compiled, eager, ruling.noise or 0.0)

    def _beyond_rounding(self, where: str, sides: _Sides, rounding: _Rounding) -> Verdict:
        """Whether rule 8 makes a fault of a place; the verdict tells of no difference yet."""
        expected, actual, truth = sides
        note, spread = "", 0.0
        apart = lost(actual, truth) & lost(actual, expected)
        if not self._loses(where, sides, same_jumps=rounding.same_jumps):
            apart &= actual.isinf() & truth.isfinite()  # an overflow is no rounding, however few there are
        runs = self._runs_by_poles(where, same_jumps=rounding.same_jumps)
        if bool(self._off_poles(where, apart, actual, truth, runs).any()):
            compiled, eager = Distance.of(actual, truth), Distance.of(expected, truth)
            return self._with_errors(Verdict(fault=True, rule=Ruling.FP64), compiled, eager, spread)
        if bool(apart.any()):
            note, actual = NEAR_POLE, torch.where(apart, expected, actual)
            sides = sides._replace(actual=actual)
        for group in magnitudes(truth):
            near, far = Distance.of(expected[group], truth[group]), Distance.of(actual[group], truth[group])
            if not rounding.is_exceeded(far, near, sides.within(group)):
                continue
            noise: list[Distance] = []
            for run in self._redrawn_at(where, same_jumps=rounding.same_jumps):
                noise.append(Distance.of(run[group], truth[group]))
                if not rounding.is_exceeded(far, near.worst_of(noise), sides.within(group)):
                    break
            else:
                spread = max((error.norm for error in noise), default=0.0)
                return self._with_errors(Verdict(fault=True, rule=Ruling.FP64), far, near, spread)
            spread = max(error.norm for error in noise)
            note = note or "amplified rounding"
        return Verdict(rule=Ruling.FP64, note=note, noise=spread)

    def _loses(self, where: str, sides: _Sides, *, same_jumps: bool) -> bool:
        """Whether more elements are NaN or Inf than rounding explains by their number."""
        compiled, eager = Distance.of(sides.actual, sides.truth), Distance.of(sides.expected, sides.truth)
        if not compiled.loses(eager):
            return False
        for run in self._redrawn_at(where, same_jumps=same_jumps):
            eager = eager.worst_of([Distance.of(run, sides.truth)])
            if not compiled.loses(eager):
                return False
        return True

    def _without_a_cast(self, difference: Difference, truth: Tensor) -> Verdict | None:
        """The ruling where compiled code agrees with the truth only since it drops an explicit cast of the program; else None."""
        where = difference.where
        dtype = self._runs.narrowest_cast(where)
        kept = self._runs.truth_with_casts if dtype is not None else None
        if dtype is None or kept is None or not has_place(kept, where, self._expected):
            return None
        expected, actual = in_double(self._expected[where]), in_double(self._actual[where])
        if not drops_a_cast(expected, actual, truth, in_double(kept[where]), torch.finfo(dtype).eps):
            return None
        why = f"a cast to {short(dtype)} is dropped"
        return replace(fault([difference], Ruling.CASTS, why), mechanism=DROPPED_CAST)

    def _at(self, where: str, runs: Iterable[Places]) -> Iterator[Tensor]:
        """The values of a place in those runs that have it in eager's shape, which other jumps may change."""
        return (in_double(run[where]) for run in runs if has_place(run, where, self._expected))

    def _first_at(self, where: str, *, same_jumps: bool) -> Iterator[Tensor]:
        """The values of a place in the first eager runs with redrawn roundings."""
        return self._at(where, self._runs.redrawn_with_same_jumps if same_jumps else self._runs.redrawn)

    def _redrawn_at(self, where: str, *, same_jumps: bool) -> Iterator[Tensor]:
        """`_first_at`, and then the further runs, each made when it is asked for, if the jumps need not be the same."""
        yield from self._first_at(where, same_jumps=same_jumps)
        if not same_jumps:
            yield from self._at(where, self._runs.redrawn_further)

    def _off_poles(
        self, where: str, apart: Tensor, actual: Tensor, truth: Tensor, runs: Iterator[tuple[Tensor, Shows]]
    ) -> Tensor:
        """The mask ``apart`` without the elements next to a pole that rounding may make the same NaN or Inf of (`Poles`)."""
        if not bool(apart.any()) or not is_inexact(self._expected[where]) or actual.is_complex() != truth.is_complex():
            return apart
        poles, left = Poles(truth, self._expected[where].dtype), apart
        for run, shows in runs:
            poles.learn(run, shows)
            left = apart & ~poles.excused(actual)
            if not bool(left.any()) or poles.are_away(left):
                break
        return left

    def _runs_by_poles(self, where: str, *, same_jumps: bool) -> Iterator[tuple[Tensor, Shows]]:
        """Eager runs, and what each shows; the narrow ones only for what the first do not explain."""
        yield in_double(self._expected[where]), Shows.DIGITS
        yield from ((run, Shows.PLACES) for run in self._first_at(where, same_jumps=same_jumps))
        if not same_jumps:
            yield from ((run, Shows.DIGITS) for run in self._at(where, self._runs.redrawn_narrowly))

    def _runs_behind_jump(self, where: str) -> Iterator[tuple[Tensor, Shows]]:
        """As `_runs_by_poles`: runs with eager's jumps show the places, since another jump, too, makes NaN of a number."""
        yield from ((run, Shows.DIGITS) for run in self._first_at(where, same_jumps=True))
        yield from ((run, Shows.KINDS) for run, _ in self._runs_by_poles(where, same_jumps=False))

    def _but_flushed(self, where: str, sides: _Sides) -> _Sides | None:
        """The sides with eager's values in the compiled one where flushing explains it; None if that is nowhere."""
        dtype = self._expected[where].dtype
        for flushed in self._at(where, self._runs.flushed):
            moved = moved_by_flushing(flushed, sides.expected, sides.actual, dtype)
            if bool(moved.any()):
                return sides._replace(actual=torch.where(moved, sides.expected, sides.actual))
        return None

    def _learn(self, where: str, sides: _Sides, own: Distance) -> None:
        """Keep eager's own error at a place, for the calls to come."""
        largest, size = float(sides.expected.abs().max()), float(sides.expected.norm())
        if own.missing == 0 and 0.0 < largest < math.inf:
            norm = own.norm * (float(sides.truth.norm()) or 1.0)
            self._known.errors[where] = OwnError(own.worst / largest, norm / size)

    @staticmethod
    def _with_errors(verdict: Verdict, compiled: Distance, eager: Distance, noise: float) -> Verdict:
        verdict.compiled_error, verdict.eager_error, verdict.noise = compiled.norm, eager.norm, noise
        return verdict

    def by_ulps(self, difference: Difference) -> Verdict:
        """Apply rule 9: eager is the truth."""
        where = difference.where
        expected, actual = in_double(self._expected[where]), in_double(self._actual[where])
        sides = _Sides(expected, actual, expected)
        if difference.what != "value":
            return self._nonfinite(difference, sides)
        margin = SMALL_MARGIN if self.is_small(difference) else MARGIN
        if not self._beyond_ulps(where, sides, margin):
            return excused(difference, Ruling.ULPS, "", excuse="ulps")
        other = self._but_flushed(where, sides)
        if other is not None and not self._beyond_ulps(where, other, margin):
            return excused(difference, Ruling.ULPS, "", excuse="subnormal")
        return fault([difference], Ruling.ULPS, self._why_ulps())

    def _beyond_ulps(self, where: str, sides: _Sides, margin: float) -> bool:
        """Whether a finite element is off by more than rounding explains; another difference tells of NaN and Inf."""
        expected, actual, _ = sides
        dtype = self._expected[where].dtype
        eps = torch.finfo(dtype).eps if is_inexact(self._expected[where]) else 0.0
        apart = outside(expected, actual, dtype) & actual.isfinite() & expected.isfinite()
        legal = ULPS * eps * expected.abs()
        if not bool((((actual - expected).abs() > legal) & apart).any()):
            return False
        groups = magnitudes(expected)
        for run in self._redrawn_at(where, same_jumps=False):
            for group in groups:
                noise = Distance.of(run[group], expected[group]).worst
                legal[group] = legal[group].clamp(min=margin * noise)
            if not bool((((actual - expected).abs() > legal) & apart).any()):
                return False
        return True

    def _nonfinite(self, difference: Difference, sides: _Sides) -> Verdict:
        """Apply rule 9 to NaN and Inf: by their number, and what is more than that by element."""
        where = difference.where
        expected, actual, _ = sides
        runs = self._first_at(where, same_jumps=False)
        most = max((Distance.of(run, expected).missing for run in runs), default=0)
        if Distance.of(actual, expected).missing <= MARGIN * most:
            return excused(difference, Ruling.ULPS, "NaN or Inf moves with the last bit", excuse="nonfinite_moves")
        other = self._but_flushed(where, sides) or sides
        apart = lost(other.actual, expected)
        if not bool(apart.any()):
            return excused(difference, Ruling.ULPS, "", excuse="subnormal")
        by_poles = self._runs_by_poles(where, same_jumps=False)
        if not bool(self._off_poles(where, apart, other.actual, expected, by_poles).any()):
            return excused(difference, Ruling.ULPS, NEAR_POLE, excuse="near_pole")
        return fault([difference], Ruling.ULPS, self._why_ulps())

    def _why_ulps(self) -> str:
        return f"no fp64: {self._runs.why_no_truth or 'no such place'}"


def _right_side(sides: _Sides, dtype: torch.dtype) -> str | None:
    """The side that is within the dtype's tolerance of the truth where the other is not; None where both are, or neither is."""
    is_off = [bool(outside(sides.truth, side, dtype).any()) for side in (sides.expected, sides.actual)]
    return None if is_off[0] == is_off[1] else "compiled" if is_off[0] else "eager"


def is_small(difference: Difference, dtype: torch.dtype) -> bool:
    """Whether the tolerance of ``assert_close``, which has an absolute part, lets a difference pass."""
    is_of_value = difference.what == "value" and difference.required_atol is not None
    return is_of_value and (difference.required_atol or 0.0) <= default_tolerance(dtype).atol


def has_place(truth: Places, where: str, expected: Places) -> bool:
    """Whether the truth has this place, with the same shape."""
    return where in truth and truth[where].shape == expected[where].shape
