"""The referee: decides which differences between compiled and eager are faults, and which are legal rounding.

The first of rules 1 to 9 that applies to a place decides:

1. *The script's own tolerance.* A script that compares has defined what is wrong; every difference beyond its tolerance counts.
2. *Metadata* (dtype, shape, stride, aliasing, requires_grad, type) and plain Python values never differ legally. A difference in
   strides only ranks below every other, suspects included.
3. *Nondeterminism.* A second eager run, with uninitialised memory filled anew, shows eager's own spread. Where eager differs from
   eager beyond the tolerance, nothing can be said about the compiler.
4. *Randomness.* Values drawn from a generator may come from another stream, unless the caller gave both sides the same numbers.
5. *Undefined results* may be anything: a float cast to an integer type that cannot hold it, a place that is written to twice.
6. *Exact values.* If every producer is exact there is one right answer, required to the bit (subnormals apart).
7. *Behind a jump* (round, argmax, a comparison ...) on rounded values, two correct runs may diverge, and neither the distance nor the
   number of elements is evidence. A value within rounding of a rerun that takes all jumps as eager did (`jumps`) is legal, by
   rule 8. NaN where eager and double precision have a number is a fault away from a pole: a jump makes another number.
   Anything else is a suspect: a fault only if a part of the program is wrong on eager's own inputs.
8. *fp64.* The compiled value is outside ``assert_close``'s tolerance to eager, and its error against double precision exceeds
   ``max(3 * eager's error, floor(dtype, number of terms))`` *in the norm or in the worst element*. Either is enough. A norm
   alone is blind to one bad element of millions; the worst element alone is blind to a small error everywhere, since eager's own
   worst element is far out in the tail. Eager's error is that of eager or of eager with its roundings redrawn, whichever is
   larger: a lucky eager is no measure. Elements of another order of magnitude are judged by themselves (`magnitudes`). NaN and Inf
   may come and go at up to 3 times as many elements as in eager, and what is more than that next to a pole only (`poles`). An
   element is excused if flushing subnormal numbers in eager moves this very element as far (`flushing`).
9. *ulps.* If the program means something else in double precision, eager in its own precision is the truth, and the compiled value
   may be off by ``ULPS`` units in the last place, or by 3 times the largest effect of redrawing eager's roundings on elements of
   its order of magnitude. NaN and Inf may come and go at up to 3 times as many places as they do in a redrawn run, and next to a
   pole. Flushing excuses as in rule 8.
10. *Casts.* A value that is legal by rule 8 only since an explicit cast of the program is dropped is a fault where that moves the
    result beyond a few roundings (`casts`).
11. *dtypes.* What rules 7 to 9 judged is a fault where compiled code computes in a narrower dtype than eager (`precisions`).

Small values (gradients, updates at a small learning rate) are judged relative to themselves: the absolute part of a tolerance is
scaled to the largest element of their order of magnitude. What ``assert_close`` would let pass is a fault by rules 8 and 9 only beyond
``SMALL_MARGIN`` times eager's error: what large terms cancel to is all noise. Before any fault further redrawn runs are made, one
after the other, until one explains the difference.
"""

from __future__ import annotations

import contextlib
import math
import numbers
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import EllipsisType
from typing import Any, NamedTuple

import torch
from torch import Tensor

from ..rulings import Ruling
from ..values.boundary import WRONG_GRADIENT, WRONG_METADATA, WRONG_OUTPUT, Difference, boundary_of
from ..values.elements import Tolerance, default_tolerance, plain, short, wide
from ..values.magnitudes import magnitudes
from ..values.rounding import is_inexact
from ..values.snapshot import has_plain_storage
from .call import Call, Side
from .casts import DROPPED_CAST, drops_a_cast
from .compare import compare, opaque
from .distance import (
    ELEMENTWISE,
    MARGIN,
    Distance,
    in_double,
    lost,
    outside,
    rounding_floor,
    same_bits,
    same_elements,
)
from .flushing import moved_by_flushing
from .known import Known, OwnError
from .poles import Poles, Shows
from .precisions import OTHER_PRECISION, narrowed
from .provenance import Mark
from .reruns import Places, Reruns

STRIDE = "stride"
"""`Difference.what` of a difference in memory layout only."""
ULPS = 4
"""Units in the last place by which a compiled value may differ from eager if there is no fp64 truth."""
SMALL_MARGIN = 8
"""As `MARGIN`, for differences that ``assert_close`` would let pass."""
NEAR_POLE = "NaN or Inf near a pole"


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


def judge(call: Call, expected: Side, actual: Side, known: Known | None = None) -> Verdict:
    """Judge a call, or its gradients, by its eager and its compiled side.

    ``known``: what earlier calls of the program have shown, to which this adds, so that most calls need no rerun; None if calls of the
    program may differ in that.
    """
    with call.switches.applied():
        differences = compare(expected, actual, _own(call.tolerance), identity=call.identity)
        verdict = _Bench(call, expected, actual, Known() if known is None else known).verdict(differences)
        if call.tolerance is None and _is_of_rounding(verdict):
            verdict = _by_dtypes(call, verdict)
        is_beside = any(difference.where.startswith("input") for difference in verdict.differences)
        seen = [expected.result, *expected.gradients, *(expected.inputs if is_beside else ())]
        verdict.equals_itself = verdict.fault and equals_itself(seen)
    return verdict


def _is_of_rounding(verdict: Verdict) -> bool:
    """Whether all that differs are values that the rules for rounding have judged."""
    return bool(verdict.differences) and all(rule.is_of_rounding for rule in verdict.rules.values())


def _by_dtypes(call: Call, verdict: Verdict) -> Verdict:
    """The verdict where compiled code computes in a narrower dtype than eager: no rounding, however small the difference is."""
    why = ""
    with contextlib.suppress(Exception):  # neither side has to run under our mode, or through AOTAutograd alone
        why = narrowed(call)
    if not why:
        return verdict
    kind = verdict.kind or verdict.differences[0].kind
    return replace(
        verdict,
        fault=True,
        discrete=False,
        kind=kind,
        rule=Ruling.DTYPES,
        why=why,
        note="",
        mechanism=OTHER_PRECISION,
    )


def equals_itself(values: Any) -> bool:
    """Whether ``torch.equal`` and ``==`` can verify these values: they contain no NaN and no unusual tensor."""
    return all(_equals_itself(pair.expected) for pair in boundary_of([("", values, values)]).pairs)


def _equals_itself(value: Any) -> bool:
    if isinstance(value, Tensor):
        with contextlib.suppress(RuntimeError, NotImplementedError), torch.no_grad():
            is_usual = type(value) in (Tensor, torch.nn.Parameter) and has_plain_storage(value)
            return is_usual and torch.equal(value, value.clone())
        return False
    return value is None or (isinstance(value, numbers.Number) and value == value)


def upcast(call: Call) -> Any:
    """The call's outputs in double precision; None if the program means something else there."""
    return Reruns(call).truth_outputs


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


class _Bench:
    """Judges one call: applies the rules to each difference, with reruns as needed."""

    def __init__(self, call: Call, expected: Side, actual: Side, known: Known) -> None:
        self._runs, self._known = Reruns(call), known
        self._expected, self._actual = expected.places(), actual.places()
        self._random_is_shared = call.random
        self._own_tolerance = call.tolerance is not None
        self._excuses: list[str] = []
        self._excuse(opaque(expected, actual), excuse="opaque_objects")

    def verdict(self, differences: list[Difference]) -> Verdict:
        if self._own_tolerance:
            if differences and not self._is_noise(differences):
                return _fault(differences, Ruling.OWN_TOLERANCE)
            self._excuse(self._unequal(), excuse="own_tolerance")
        else:
            covered = [difference for difference in differences if self._is_covered(difference)]
            self._excuse([difference.where for difference in covered], excuse="rounding")
            differences = [difference for difference in differences if difference not in covered]
            with contextlib.suppress(RuntimeError):  # it cannot run under our modes: no value is known exact
                differences = differences + self._inexact_bits(differences)
        odd = [w for w, tensor in self._expected.items() if w.startswith("input") and not has_plain_storage(tensor)]
        self._excuse(odd, excuse="layout_of_copies")
        verdict = self._ruled(differences) if differences else Verdict()
        verdict.excuses += self._excuses
        return verdict

    def _ruled(self, differences: list[Difference]) -> Verdict:
        if self._is_noise(differences):
            note = "eager differs from eager"
            rules = {difference.where: Ruling.NONDETERMINISTIC for difference in differences}
            self._excuse([*rules], excuse="eager_spread")
            is_small = all(map(self._is_spread_small, rules))
            return Verdict(
                nondeterministic=not is_small,
                rule=Ruling.NONDETERMINISTIC,
                note=note,
                differences=differences,
                rules=rules,
            )
        rulings = [self._rule(difference) for difference in differences]
        faults = [ruling for ruling in rulings if ruling.fault]
        suspects = [ruling for ruling in rulings if ruling.discrete]
        is_layout = all(difference.what == STRIDE for ruling in faults for difference in ruling.differences)
        counted = (suspects if is_layout else []) or faults or suspects or rulings
        result = counted[0]
        result.rules = {difference.where: ruling.rule for ruling in rulings for difference in ruling.differences}
        result.differences = [difference for ruling in counted for difference in ruling.differences]
        result.kind = result.differences[0].kind if result.fault else None
        if result.fault:
            result.differences = [self._with_rtol(difference) for difference in result.differences]
        result.excuses = [excuse for ruling in rulings for excuse in ruling.excuses]
        result.right = {where: side for ruling in rulings for where, side in ruling.right.items()}
        result.note = "" if result.fault else "; ".join(dict.fromkeys(ruling.note for ruling in counted if ruling.note))
        return result

    def _inexact_bits(self, known: list[Difference]) -> list[Difference]:
        """Differences within the tolerance at exact places, which have one right answer."""
        expected, actual = self._expected, self._actual
        passed = [where for where in self._unequal() if where not in {difference.where for difference in known}]
        self._excuse(passed, excuse="within_tolerance")
        found = []
        for where in passed:
            if where in self._known.rounded or where not in self._runs.histories:
                continue
            if self._runs.histories[where][0] is not Mark.EXACT:
                self._known.rounded.add(where)
            elif expected[where].dtype == actual[where].dtype:
                tiny = torch.finfo(expected[where].dtype).tiny
                (bits,) = (compare(Side(expected[where]), Side(actual[where]), Tolerance(0.0, tiny))[:1]) or (None,)
                if bits is not None and bits.what in ELEMENTWISE:
                    kind = WRONG_GRADIENT if where.startswith("grad") else WRONG_OUTPUT
                    found.append(Difference(**{**vars(bits), "where": where, "kind": kind}))
                else:
                    self._excuse([where], excuse="subnormal")
        return found

    def _unequal(self) -> list[str]:
        """The places of inexact tensors that differ in any bit."""
        expected = {where: tensor for where, tensor in self._expected.items() if is_inexact(tensor)}
        actual = {where: self._actual[where] for where in expected if where in self._actual}
        return [w for w in actual if expected[w].shape == actual[w].shape and not same_bits(expected[w], actual[w])]

    def _excuse(self, places: Sequence[str], *, excuse: str) -> None:
        self._excuses += [excuse] * len(places)

    def _is_small(self, difference: Difference) -> bool:
        """Whether ``assert_close`` would let a difference pass, since the values are small beside 1."""
        return not self._own_tolerance and _is_small(difference, self._expected[difference.where].dtype)

    def _with_rtol(self, difference: Difference) -> Difference:
        """The same difference with the tolerance by which a repro can show it, where that of ``assert_close`` cannot."""
        if difference.what != "value" or not self._is_small(difference):
            return difference
        return replace(difference, rtol=default_tolerance(self._expected[difference.where].dtype).rtol)

    def _is_covered(self, difference: Difference) -> bool:
        """Whether small values differ by no more than eager's own error at this place, which an earlier call has shown."""
        error = self._known.errors.get(difference.where)
        if error is None or not self._is_small(difference):
            return False
        return error.covers(in_double(self._expected[difference.where]), in_double(self._actual[difference.where]))

    def _is_noise(self, differences: list[Difference]) -> bool:
        """Whether every difference also shows between two eager runs."""
        return all(d.what in ELEMENTWISE and bool(self._spread(d.where)) for d in differences)

    def _spread(self, where: str) -> list[Difference]:
        """The differences between two eager runs at a place."""
        one, other = self._expected.get(where), self._runs.again.get(where)
        if one is None or other is None:
            return []
        return [difference for difference in compare(Side(one), Side(other)) if difference.what in ELEMENTWISE]

    def _is_spread_small(self, where: str) -> bool:
        """Whether eager differs from eager in small values only, so that the place is excused, and the script is no less judged."""
        dtype = self._expected[where].dtype
        return all(_is_small(difference, dtype) for difference in self._spread(where))

    def _rule(self, difference: Difference) -> Verdict:
        where = difference.where
        if difference.what not in ELEMENTWISE:
            is_metadata = difference.kind == WRONG_METADATA
            return _fault([difference], Ruling.METADATA if is_metadata else Ruling.NEVER_LEGAL)
        if self._spread(where):
            return _excused(difference, Ruling.NONDETERMINISTIC, "eager differs from eager", excuse="eager_spread")
        marks, terms = self._runs.histories.get(where, (Mark.EXACT, 1))
        if Mark.RANDOM in marks and not self._random_is_shared:
            note = "random values come from another stream"
            return _excused(difference, Ruling.RANDOM_STREAM, note, excuse="random_stream")
        if self._is_undefined(where):
            note = f"{self._runs.why_undefined}: a result that depends on it is undefined, and differs"
            return _excused(difference, Ruling.UNDEFINED, note, excuse="undefined_result")
        is_stepped = Mark.DISCRETE in marks or (Mark.ROUNDED in marks and not is_inexact(self._expected[where]))
        if is_stepped:  # a rounded float reinterpreted as integer bits is a step too
            return self._rule_behind_jump(difference, terms)
        if Mark.ROUNDED not in marks and not Mark.RANDOM & marks:
            return _fault([difference], Ruling.EXACT)
        truth = self._runs.truth
        if truth is not None and _has(truth, where, self._expected):
            return self._rule_fp64(difference, truth[where], terms)
        return self._rule_ulps(difference)

    def _is_undefined(self, where: str) -> bool:
        """Whether all elements that differ depend on an undefined result."""
        if not self._runs.why_undefined:
            return False
        expected, actual = wide(plain(self._expected[where])), wide(plain(self._actual[where]))
        runs = [wide(plain(run[where])) for run in self._runs.undefined if where in run]
        if not runs or any(other.shape != expected.shape for other in (actual, *runs)):
            return False
        dtype = self._expected[where].dtype
        moved = torch.stack([~same_elements(expected, run, dtype) for run in runs]).any(0)
        return not bool((~same_elements(expected, actual, dtype) & ~moved).any())

    def _rule_behind_jump(self, difference: Difference, terms: int) -> Verdict:
        where = difference.where
        truth = self._runs.truth_with_same_jumps if is_inexact(self._expected[where]) else None
        if truth is not None and _has(truth, where, self._expected):
            ruling = self._rule_fp64(difference, truth[where], terms, same_jumps=True)
            if not ruling.fault:
                return ruling
        if self._makes_nan(where):
            return _fault([difference], Ruling.NAN_BEHIND_JUMP)
        note = "values behind a jump differ: a fault only if a part of the program is wrong on eager's inputs"
        return Verdict(rule=Ruling.DISCRETE, discrete=True, note=note, differences=[difference])

    def _makes_nan(self, where: str) -> bool:
        """Whether compiled code has NaN where neither eager nor double precision has it, if the program can run in it, nor a pole explains it."""
        if not all(is_inexact(side[where]) for side in (self._expected, self._actual)):
            return False
        expected, actual = in_double(self._expected[where]), in_double(self._actual[where])
        made = actual.isnan() & ~expected.isnan()
        truth = self._runs.truth
        if bool(made.any()) and truth is not None and _has(truth, where, self._expected):
            made &= ~in_double(truth[where]).isnan()
        return bool(self._off_poles(where, made, actual, expected, self._runs_behind_jump(where)).any())

    def _rule_fp64(self, difference: Difference, truth: Tensor, terms: int, *, same_jumps: bool = False) -> Verdict:
        """Apply rule 8 against ``truth``; with ``same_jumps`` the reruns with redrawn roundings take all jumps as eager did."""
        where, excuse = difference.where, "rounding"
        is_small = self._is_small(difference)
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
        legal = _excused(difference, Ruling.FP64, ruling.note, excuse=excuse)
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
        if dtype is None or kept is None or not _has(kept, where, self._expected):
            return None
        expected, actual = in_double(self._expected[where]), in_double(self._actual[where])
        if not drops_a_cast(expected, actual, truth, in_double(kept[where]), torch.finfo(dtype).eps):
            return None
        why = f"a cast to {short(dtype)} is dropped"
        return replace(_fault([difference], Ruling.CASTS, why), mechanism=DROPPED_CAST)

    def _at(self, where: str, runs: Iterable[Places]) -> Iterator[Tensor]:
        """The values of a place in those runs that have it in eager's shape, which other jumps may change."""
        return (in_double(run[where]) for run in runs if _has(run, where, self._expected))

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
        if not bool(apart.any()):
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
            moved = moved_by_flushing(flushed, *sides, dtype)
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

    def _rule_ulps(self, difference: Difference) -> Verdict:
        """Apply rule 9: eager is the truth."""
        where = difference.where
        expected, actual = in_double(self._expected[where]), in_double(self._actual[where])
        sides = _Sides(expected, actual, expected)
        if difference.what != "value":
            return self._rule_nonfinite(difference, sides)
        margin = SMALL_MARGIN if self._is_small(difference) else MARGIN
        if not self._beyond_ulps(where, sides, margin):
            return _excused(difference, Ruling.ULPS, "", excuse="ulps")
        other = self._but_flushed(where, sides)
        if other is not None and not self._beyond_ulps(where, other, margin):
            return _excused(difference, Ruling.ULPS, "", excuse="subnormal")
        return _fault([difference], Ruling.ULPS, self._why_ulps())

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

    def _rule_nonfinite(self, difference: Difference, sides: _Sides) -> Verdict:
        """Apply rule 9 to NaN and Inf: by their number, and what is more than that by element."""
        where = difference.where
        expected, actual, _ = sides
        runs = self._first_at(where, same_jumps=False)
        most = max((Distance.of(run, expected).missing for run in runs), default=0)
        if Distance.of(actual, expected).missing <= MARGIN * most:
            return _excused(difference, Ruling.ULPS, "NaN or Inf moves with the last bit", excuse="nonfinite_moves")
        other = self._but_flushed(where, sides) or sides
        apart = lost(other.actual, expected)
        if not bool(apart.any()):
            return _excused(difference, Ruling.ULPS, "", excuse="subnormal")
        by_poles = self._runs_by_poles(where, same_jumps=False)
        if not bool(self._off_poles(where, apart, other.actual, expected, by_poles).any()):
            return _excused(difference, Ruling.ULPS, NEAR_POLE, excuse="near_pole")
        return _fault([difference], Ruling.ULPS, self._why_ulps())

    def _why_ulps(self) -> str:
        return f"no fp64: {self._runs.why_no_truth or 'no such place'}"


def _right_side(sides: _Sides, dtype: torch.dtype) -> str | None:
    """The side that is within the dtype's tolerance of the truth where the other is not; None where both are, or neither is."""
    is_off = [bool(outside(sides.truth, side, dtype).any()) for side in (sides.expected, sides.actual)]
    return None if is_off[0] == is_off[1] else "compiled" if is_off[0] else "eager"


def _is_small(difference: Difference, dtype: torch.dtype) -> bool:
    """Whether the tolerance of ``assert_close``, which has an absolute part, lets a difference pass."""
    is_of_value = difference.what == "value" and difference.required_atol is not None
    return is_of_value and (difference.required_atol or 0.0) <= default_tolerance(dtype).atol


def _has(truth: Places, where: str, expected: Places) -> bool:
    """Whether the truth has this place, with the same shape."""
    return where in truth and truth[where].shape == expected[where].shape


def _own(tolerance: Mapping[str, Any] | None) -> Tolerance | None:
    """The rtol and atol of a script's comparison; None if it used the defaults."""
    known = {name: float(tolerance[name]) for name in ("rtol", "atol") if tolerance and tolerance.get(name) is not None}
    return Tolerance(known.get("rtol", 0.0), known.get("atol", 0.0)) if known else None


def _fault(differences: list[Difference], rule: Ruling, why: str = "") -> Verdict:
    return Verdict(fault=True, kind=differences[0].kind, rule=rule, why=why, differences=differences)


def _excused(difference: Difference, rule: Ruling, note: str, *, excuse: str) -> Verdict:
    return Verdict(rule=rule, note=note, differences=[difference], excuses=[excuse])
