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
   element is excused if flushing subnormal numbers in eager makes the same of this very element (`flushing`).
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
import numbers
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from ..rulings import Ruling
from ..values.boundary import WRONG_GRADIENT, WRONG_METADATA, WRONG_OUTPUT, Difference, boundary_of
from ..values.elements import Tolerance, default_tolerance, plain, wide
from ..values.rounding import is_inexact
from ..values.snapshot import has_plain_storage
from .call import Call, Side
from .compare import compare, opaque
from .distance import (
    ELEMENTWISE,
    in_double,
    same_bits,
    same_elements,
)
from .known import Known
from .precisions import OTHER_PRECISION, narrowed
from .provenance import Mark
from .reruns import Reruns
from .rounding_rules import RoundingRules, has_place, is_small
from .verdict import STRIDE, Verdict, excused, fault


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


class _Bench:
    """Judges one call: applies the rules to each difference, with reruns as needed."""

    def __init__(self, call: Call, expected: Side, actual: Side, known: Known) -> None:
        self._runs, self._known = Reruns(call), known
        self._expected, self._actual = expected.places(), actual.places()
        self._random_is_shared = call.random
        self._own_tolerance = call.tolerance is not None
        self._rounding = RoundingRules(
            self._runs, known, self._expected, self._actual, has_own_tolerance=self._own_tolerance
        )
        self._excuses: list[str] = []
        self._excuse(opaque(expected, actual), excuse="opaque_objects")

    def verdict(self, differences: list[Difference]) -> Verdict:
        if self._own_tolerance:
            if differences and not self._is_noise(differences):
                return fault(differences, Ruling.OWN_TOLERANCE)
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

    def _with_rtol(self, difference: Difference) -> Difference:
        """The same difference with the tolerance by which a repro can show it, where that of ``assert_close`` cannot."""
        if difference.what != "value" or not self._rounding.is_small(difference):
            return difference
        return replace(difference, rtol=default_tolerance(self._expected[difference.where].dtype).rtol)

    def _is_covered(self, difference: Difference) -> bool:
        """Whether small values differ by no more than eager's own error at this place, which an earlier call has shown."""
        error = self._known.errors.get(difference.where)
        if error is None or not self._rounding.is_small(difference):
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
        return all(is_small(difference, dtype) for difference in self._spread(where))

    def _rule(self, difference: Difference) -> Verdict:
        where = difference.where
        if difference.what not in ELEMENTWISE:
            is_metadata = difference.kind == WRONG_METADATA
            return fault([difference], Ruling.METADATA if is_metadata else Ruling.NEVER_LEGAL)
        if self._spread(where):
            return excused(difference, Ruling.NONDETERMINISTIC, "eager differs from eager", excuse="eager_spread")
        marks, terms = self._runs.histories.get(where, (Mark.EXACT, 1))
        if Mark.RANDOM in marks and not self._random_is_shared:
            note = "random values come from another stream"
            return excused(difference, Ruling.RANDOM_STREAM, note, excuse="random_stream")
        if self._is_undefined(where):
            note = f"{self._runs.why_undefined}: a result that depends on it is undefined, and differs"
            return excused(difference, Ruling.UNDEFINED, note, excuse="undefined_result")
        is_stepped = Mark.DISCRETE in marks or (Mark.ROUNDED in marks and not is_inexact(self._expected[where]))
        if is_stepped:  # a rounded float reinterpreted as integer bits is a step too
            return self._rule_behind_jump(difference, terms)
        if Mark.ROUNDED not in marks and not Mark.RANDOM & marks:
            return fault([difference], Ruling.EXACT)
        truth = self._runs.truth
        if truth is not None and has_place(truth, where, self._expected):
            return self._rounding.by_fp64(difference, truth[where], terms)
        return self._rounding.by_ulps(difference)

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
        if truth is not None and has_place(truth, where, self._expected):
            ruling = self._rounding.by_fp64(difference, truth[where], terms, same_jumps=True)
            if not ruling.fault:
                return ruling
        if self._rounding.makes_nan(where):
            return fault([difference], Ruling.NAN_BEHIND_JUMP)
        note = "values behind a jump differ: a fault only if a part of the program is wrong on eager's inputs"
        return Verdict(rule=Ruling.DISCRETE, discrete=True, note=note, differences=[difference])


def _own(tolerance: Mapping[str, Any] | None) -> Tolerance | None:
    """The rtol and atol of a script's comparison; None if it used the defaults."""
    known = {name: float(tolerance[name]) for name in ("rtol", "atol") if tolerance and tolerance.get(name) is not None}
    return Tolerance(known.get("rtol", 0.0), known.get("atol", 0.0)) if known else None
