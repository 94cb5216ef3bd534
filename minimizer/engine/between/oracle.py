"""The oracle for faults between graphs: is a candidate's first difference of the same type, at the same moment?"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from minimizer.engine.between.answer import Found
from minimizer.engine.between.assertion import Claim, claims
from minimizer.engine.between.difference import (
    Change,
    Difference,
    agree_at,
    difference_at_end,
    end_of,
    first_difference,
)
from minimizer.engine.between.drawn import reseeded
from minimizer.engine.between.script_runs import ALL
from minimizer.engine.budget.patience import LEAST_EXACT_TIMEOUT
from minimizer.engine.child.exact_log import ExactLog
from minimizer.engine.child.executor import Executor
from minimizer.engine.child.outcome import Ending, Outcome
from minimizer.engine.child.watchdog import crowding
from minimizer.engine.oracle.timeouts import TrialTimes
from minimizer.engine.reduce.python import Source
from minimizer.engine.reduce.python.seeds import holds, states
from minimizer.engine.reduce.python.side_by_side import until_one_fails
from minimizer.inside.questions import ExactRequest
from minimizer.report.model import Mechanism

CLOSE = list(range(1, 17))
"""Calls and backwards with a full look around them; a candidate that shows its difference later is refused."""
BUILT_IN = (
    "list", "dict", "tuple", "set", "deque", "OrderedDict", "defaultdict", "Tensor", "Parameter", "int", "float", "bool", "str",
    "process",
)  # fmt: skip
GUARDED: tuple[Mechanism, ...] = ("stale_guard", "missed_hook")
"""Mechanisms in which code compiled for an earlier call is reused wrongly."""
Trait = tuple[str, ...]


@dataclass(frozen=True)
class Target:
    """Requirements on a candidate's first difference: event, one of these traits, reuse if a guard is missing."""

    event: str
    needs_reuse: bool
    traits: frozenset[Trait]

    @staticmethod
    def of(found: Found, mechanism: Mechanism) -> Target:
        """The target that a confirmed difference defines."""
        difference = found.difference
        tellable = [c for c in difference.changes if c.field != "state"] or difference.changes  # a state is a hash
        named = min(tellable, key=lambda change: change.rank)
        same_rank = [c for c in difference.changes if _sort(c) == _sort(named)]
        needs_reuse = found.is_reused and mechanism in GUARDED
        return Target(difference.look.event, needs_reuse, frozenset(map(_trait, same_rank)))

    def has(self, change: Change) -> bool:
        """Whether a change has one of the traits."""
        return _trait(change) in self.traits

    def is_met(self, difference: Difference | None) -> bool:
        """Whether a candidate's first difference meets the requirements."""
        if difference is None or difference.look.event != self.event:
            return False
        if self.needs_reuse and difference.look.compiled > 0:
            return False
        return any(map(self.has, difference.changes))


class ExactOracle:
    """Judges scripts by exact runs. ``slowest``: seconds of the slowest exact run that ended well, or 0."""

    def __init__(
        self, executor: Executor, path: Path, found: Found, mechanism: Mechanism, *, slowest: float = 0.0
    ) -> None:
        self._executor, self._path, self._target, self._noise = (
            executor, path, Target.of(found, mechanism), found.noise.without_moments(),
        )  # fmt: skip
        self._library, self._aot = found.conditions.library, found.conditions.aot
        self._in_order = found.conditions.in_order
        self._has_name = _has_name(found.eager, found.compiled)
        """Whether the difference can be asserted at the script's end; if so, a candidate's must be too."""
        self._is_raised = ("raised",) in self._target.traits
        """Whether the exception of a call differs: then a compiled run may end by it, without anything to assert at its
        end.
        """
        self._modules = found.conditions.modules
        self._times = TrialTimes(slowest)
        self._states = states()

    @property
    def backend(self) -> str:
        """The simplest backend that shows the fault."""
        return "aot_eager" if self._aot else "eager"

    def check(self, candidates: Sequence[Source]) -> Sequence[bool | None]:
        """Whether each of the scripts shows the fault, up to the first that does.

        One that draws unseeded numbers, from several random states.
        """
        return until_one_fails(candidates, lambda one: holds(one, self._judge), self._executor.jobs)

    def _judge(self, text: str) -> tuple[bool, bool]:
        """Whether a text shows the fault, with all runs from one new random state, and whether it draws in eager."""
        start = self._request(text)
        eager = self._run(self._in_eager(start))
        return self._shows(start, eager), eager.draws

    def _shows(self, start: ExactRequest, eager: Outcome) -> bool:
        one, start = _log(eager), replace(start, replay=_reads(eager))
        if one is None or not one.calls:
            return False
        compiled = self._run(start)
        two = _log(compiled)
        if ends_by_it := two is None and self._is_raised:
            two = compiled.exact
        if not compiled.attempted or two is None:
            return False
        difference = first_difference(one, two, self._noise)
        if difference is not None and difference.is_of_results:
            as_compiled = _log(self._run(replace(start, eager=ALL, library=True)))
            if as_compiled is not None and agree_at(two, as_compiled, difference):
                return False  # eager computes the same on its compiled branch
        return self._target.is_met(difference) and (ends_by_it or not self._has_name or _has_name(one, two))

    def steady_at_end(self, text: str, changes: Sequence[Change]) -> list[Change]:
        """The changes whose eager value does not depend on the script's random numbers."""
        other = self._run(self._in_eager(self._request(reseeded(text))))
        log = _log(other)
        state = end_of(log) if log is not None else {}
        return [change for change in changes if not other.draws or state.get(change.path, {}) == change.eager]

    def claims_at_end(self, changes: Sequence[Change]) -> Iterator[Claim]:
        """Claims about changes at a script's end: first those of what the fault itself is seen in."""
        for of_fault in (True, False):
            yield from claims(tuple(change for change in changes if self._target.has(change) is of_fault))

    def logs(self, text: str) -> tuple[ExactLog, ExactLog] | None:
        """The logs of a script without the compiler and with it; None if either run does not end well."""
        start = self._request(text)
        eager = self._run(self._in_eager(start))
        compiled = self._run(replace(start, replay=_reads(eager)))
        one, two = _log(eager), _log(compiled)
        return (one, two) if one is not None and two is not None else None

    def _request(self, text: str) -> ExactRequest:
        """A compiled run, from another random state than those before."""
        return ExactRequest(
            text=text,
            script=str(self._path),
            full=CLOSE,
            modules=self._modules,
            in_order=self._in_order,
            aot=self._aot,
            state=next(self._states),
        )

    def _in_eager(self, request: ExactRequest) -> ExactRequest:
        return replace(request, eager=ALL, library=self._library)

    def _run(self, request: ExactRequest) -> Outcome:
        timeout = self._times.timeout(least=LEAST_EXACT_TIMEOUT * crowding())
        (outcome,) = self._executor.judge([request], timeout=timeout)
        self._times.note([outcome])
        return outcome


def _log(outcome: Outcome) -> ExactLog | None:
    """The log of a run; None if it did not end well."""
    return outcome.exact if outcome.ending is Ending.SAME else None


def _reads(outcome: Outcome) -> str | None:
    """What a run read of the machine, to be replayed in the compiled run."""
    return (outcome.exact.reads or None) if outcome.exact is not None else None


def _has_name(eager: ExactLog, compiled: ExactLog) -> bool:
    """Whether a change at the script's end can be asserted there."""
    return next(claims(difference_at_end(eager, compiled)), None) is not None


def _sort(change: Change) -> str:
    if change.path == "raised":
        return "raised"
    if change.kind in ("process", "stream", "environment"):
        return change.kind
    if change.path.endswith(".grad") or ".grad" in change.path:
        return "grad"
    return "result" if change.is_result else "state"


def _trait(change: Change) -> Trait:
    sort = _sort(change)
    if sort == "process":
        return sort, change.path
    if sort in ("raised", "grad"):
        return (sort,)
    kind = change.kind if change.kind in BUILT_IN else "object"
    kind = "Tensor" if kind == "Parameter" else kind
    if sort == "state":
        return sort, "value" if kind in ("int", "float", "bool", "str") else kind
    return sort, change.field
