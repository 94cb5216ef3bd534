"""The oracle: does a program still fail *in the same way*?

A candidate that fails in another way is refused, and that failure is recorded in ``also_seen``. Noise of the machine
(such as a library truncated by a trial that was killed while it compiled) is retried on a clean cache, and never
mistaken for the bug.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Any

from minimizer.engine.budget.patience import ESTIMATE_SECONDS, MEASURE_SECONDS
from minimizer.engine.child.executor import Executor
from minimizer.engine.child.outcome import Ending, Outcome
from minimizer.engine.child.survey import Survey
from minimizer.engine.child.trouble import Again
from minimizer.engine.oracle.sequential import SequentialTest
from minimizer.engine.oracle.signature import Signature, is_inside, signature_of
from minimizer.engine.oracle.timeouts import TrialTimes
from minimizer.engine.program import render, views
from minimizer.engine.program.model import Input, Program
from minimizer.inside.questions import GivenInput, ObserveRequest, TrialRequest
from minimizer.report.model import Reproducibility
from minimizer.vocabulary import UNJUDGED, Kind

HEADER = "import functools\nimport math\nimport operator\n\nimport torch\nimport torch.nn.functional as F\n"
"""Imports of every candidate; the emitted repro has only those that it uses."""


@dataclass(frozen=True)
class Measured:
    """The failure rate of a program over compilations, and an outcome that fails, if any does."""

    outcome: Outcome
    rate: Reproducibility

    @property
    def is_steady(self) -> bool:
        return self.rate.failed == self.rate.runs


class _Tally:
    """The compilations of one program on the way to a verdict."""

    def __init__(self, test: SequentialTest) -> None:
        self.verdict: bool | None = None
        self._test = test
        self._failing: list[Outcome] = []
        self._others: list[Outcome] = []

    def next(self, request: TrialRequest) -> TrialRequest:
        """The next trial, with as many compilations and failures as may be needed."""
        failed, passed = len(self._failing), len(self._others)
        compilations = self._test.passes_left(failed, passed)
        fails_otherwise = any(outcome.ending is not Ending.SAME for outcome in self._others)
        failures = compilations if fails_otherwise else self._test.failures_left(failed, passed)
        return replace(request, compilations=compilations, failures=failures)

    def add(self, outcomes: Sequence[Outcome], is_failing: Callable[[Outcome], bool]) -> None:
        """Count the outcomes of a trial, and update the verdict."""
        for outcome in outcomes:
            (self._failing if is_failing(outcome) else self._others).append(outcome)
            hopeless = outcome.ending in UNJUDGED
            self.verdict = False if hopeless else self._test.verdict(len(self._failing), len(self._others))
            if hopeless:
                break

    @property
    def outcome(self) -> Outcome:
        """An outcome that shows the verdict; for a refusal, preferably a failure of another kind."""
        if self.verdict:
            return self._failing[0]
        return next((o for o in self._others if signature_of(o) is not None), self._others[-1])


class TrialCount:
    """A number of trials, to which several oracles and threads add."""

    def __init__(self) -> None:
        self.number = 0
        self._adding = threading.Lock()

    def add(self, trials: int) -> None:
        with self._adding:
            self.number += trials


@dataclass
class Oracle:
    """Judges programs against the failure being reduced.

    ``accepts``: the signatures that count as the same failure: the target's own and, for a wrong gradient, the wrong
    output as which it appears in a joint graph. `aim_at` changes them, and `accepting` has another oracle for others.
    """

    executor: Executor
    survey: Survey
    accepts: tuple[Signature, ...]
    tolerance: dict[str, Any] | None = None
    identity: bool = False
    """Whether it is a failure if two outputs are one object, and not in eager."""
    sequential: SequentialTest | None = None
    """The test for a flaky failure; None while one compilation decides."""
    also_seen: Counter[Signature] = field(default_factory=Counter)
    _shown: dict[str, Outcome] = field(default_factory=dict)
    """By fingerprint; each is an accepted failure."""
    _count: TrialCount = field(default_factory=TrialCount)
    _times: TrialTimes = field(default_factory=TrialTimes)
    _counting: threading.Lock = field(default_factory=threading.Lock)
    """Guards ``also_seen``: stages are judged in parallel to the measurement of a failure's rate."""

    def watch(self) -> None:
        """Check for the end of the work; for loops that grow with the graph and run no trial.

        Raises:
            BudgetExceeded, Cancelled: the work is to end.
        """
        self.executor.watch()

    @property
    def trials(self) -> int:
        """The number of trials so far, with those of oracles for other failures (`accepting`)."""
        return self._count.number

    def count(self, trials: int) -> None:
        """Add the trials of an earlier attempt to their number."""
        self._count.add(trials)

    def aim_at(self, signatures: tuple[Signature, ...]) -> None:
        """Accept these signatures from now on, and no others."""
        self.accepts = signatures
        self._shown = {program: outcome for program, outcome in self._shown.items() if self.shows(outcome)}

    def accepting(self, signatures: tuple[Signature, ...]) -> Oracle:
        """An oracle for another failure, which counts its trials with those of this one."""
        return replace(self, accepts=signatures, also_seen=Counter(), _shown={})

    def check(self, programs: Sequence[Program]) -> list[bool]:
        """Whether each of the programs still fails in the same way. Judged in parallel."""
        outcomes = self.judge(programs)
        verdicts = [self.same(outcome) for outcome in outcomes]
        for program, outcome, fails in zip(programs, outcomes, verdicts, strict=True):
            if fails:
                self._shown[program.fingerprint()] = outcome
        return verdicts

    def shown(self, program: Program) -> Outcome | None:
        """The outcome of a program that was checked last time it failed; None for others."""
        return self._shown.get(program.fingerprint())

    def same(self, outcome: Outcome) -> bool:
        """Whether an outcome `shows` the accepted failure; another failure is counted in ``also_seen``."""
        if self.shows(outcome):
            return True
        if (signature := signature_of(outcome)) is not None:
            with self._counting:
                self.also_seen[signature] += 1
        return False

    def shows(self, outcome: Outcome) -> bool:
        """Whether an outcome is an accepted failure."""
        signature = signature_of(outcome)
        return signature is not None and any(
            accepted.matches(signature) or is_inside(outcome, accepted) for accepted in self.accepts
        )

    def judge(self, programs: Sequence[Program], *, backward: bool = True) -> list[Outcome]:
        """The outcome of each program; ``backward``: whether existing gradients are compared."""
        return self.answer([replace(self.request(program), backward=backward) for program in programs])

    def answer(self, requests: Sequence[TrialRequest]) -> list[Outcome]:
        """The outcome of each request.

        One compilation decides or, once the failure is known to be flaky, as many as `sequential` requires. In that
        case the outcome shows the failure if the program fails often enough; otherwise it is one that does not.
        """
        if self.sequential is None:
            return [outcomes[-1] for outcomes in self._try(requests)]
        tallies = [_Tally(self.sequential) for _ in requests]
        while undecided := [index for index, tally in enumerate(tallies) if tally.verdict is None]:
            runs = self._try([tallies[index].next(requests[index]) for index in undecided])
            for index, outcomes in zip(undecided, runs, strict=True):
                tallies[index].add(outcomes, self.shows)
        return [tally.outcome for tally in tallies]

    def expect(self, seen: Reproducibility) -> None:
        """Judge sequentially from now on, for a failure with this rate."""
        self.sequential = SequentialTest.of(seen)

    def estimate(self, programs: Sequence[Program]) -> None:
        """Expect the failure rate of the first of these programs that fails more than once.

        A window has its own rate; if that is too low to measure, the rate of the graph around it is the next best.
        """
        for program in programs:
            rate = self.measure(program, seconds=ESTIMATE_SECONDS).rate
            if rate.failed > 1:
                return self.expect(rate)
        return self.expect(Reproducibility(failed=1, runs=2))

    def measure(self, program: Program, *, runs: int = 20, seconds: float | None = None) -> Measured:
        """Measure the failure rate of a program: compile it up to ``runs`` times, for ``seconds`` after the first.

        By default just long enough to decide whether it is steady, and longer once the failure is known to be flaky.
        """
        seconds = seconds or (MEASURE_SECONDS if self.sequential is None else ESTIMATE_SECONDS)
        request, stop = self.request(program), time.monotonic() + seconds
        seen: list[Outcome] = []
        while not seen or (len(seen) < runs and time.monotonic() < stop and seen[-1].ending not in UNJUDGED):
            left = runs - len(seen)
            seen += self._try([replace(request, compilations=left, failures=left, seconds=seconds)])[0]
        failed = [self.shows(outcome) for outcome in seen]
        if failed[0] and len(seen) > 2 and not any(failed[1:]) and seen[-1].ending not in UNJUDGED:
            # It seems to fail only in a process that has compiled nothing yet: measure in such processes only.
            seen = [seen[0], *(outcomes[-1] for outcomes in self._try([request] * 3))]
            failed = [self.shows(outcome) for outcome in seen]
        if seen[-1].ending is Ending.NONDETERMINISTIC:
            return Measured(seen[-1], Reproducibility(failed=0, runs=len(seen)))
        shown = seen[failed.index(True)] if True in failed else seen[-1]
        return Measured(shown, Reproducibility(failed=sum(failed), runs=len(seen)))

    def operators(self, program: Program) -> list[str]:
        """The aten operators, as packet names, that a program runs in eager."""
        return self._observed(program).ops

    def raised_in_eager(self, program: Program) -> str:
        """The name of the exception that a program raises in eager, without its module; empty if it returns."""
        error = self._observed(program).exception
        return error.type.rpartition(".")[2] if error is not None else ""

    def _observed(self, program: Program) -> Outcome:
        request = ObserveRequest(**vars(self.request(program)))
        (outcome,) = self.executor.judge([request], timeout=self.timeout)
        return outcome

    @property
    def timeout(self) -> float:
        """Timeout of a trial in seconds: a multiple of the slowest one that was not stopped."""
        return self._times.timeout()

    def request(self, program: Program) -> TrialRequest:
        """The trial of a program."""
        program = program.renamed()
        keys = frozenset(i.stored for i in program.inputs if i.stored is not None)
        return TrialRequest(
            setup=render.behind(HEADER, render.setup(program)),
            source=render.function(program, program.name),
            name=program.name,
            inputs=[_input(i, program.marks(i)) for i in program.inputs],
            golden_files=[str(self.survey.golden(keys))] if keys else [],
            compile_kwargs=", ".join(f"{key}={value}" for key, value in program.compile_kwargs),
            around=program.around,
            grad=program.grad,
            tolerance=self.tolerance,
            identity=self.identity,
        )

    def _try(self, requests: Sequence[TrialRequest]) -> list[list[Outcome]]:
        """Run trials, and repeat those with machine noise on a clean cache."""
        trials = self._run(requests)
        for index, outcomes in enumerate(trials):
            if any(outcome.rule.again is Again.CLEAN_CACHE for outcome in outcomes):
                clean = {"TORCHINDUCTOR_CACHE_DIR": str(self.executor.fresh_cache())}
                (again,) = self._run([replace(requests[index], environ=clean)])
                trials[index] = [outcome.judged for outcome in again]
        self._count.add(len(trials))
        if any(request.golden_files for request in requests):
            self.survey.trim()
        return trials

    def _run(self, requests: Sequence[TrialRequest]) -> list[list[Outcome]]:
        is_hang = any(accepted.kind is Kind.HANG for accepted in self.accepts)
        watchdog = self._times.watchdog() if is_hang else None
        further = max((request.compilations for request in requests), default=1) - 1
        timeout = self.timeout + further * self._times.slowest
        trials = self.executor.repeat(requests, timeout=timeout, watchdog=watchdog)
        self._times.note(chain.from_iterable(trials))
        return trials


def _input(item: Input, marks: tuple[int, ...]) -> GivenInput:
    code = views.text(item.view) if item.view is not None else item.code
    return GivenInput(
        name=item.name,
        golden=item.stored,
        code=code,
        is_view=item.view is not None,
        requires_grad=bool(item.meta and item.meta.requires_grad),
        marks=marks,
        frozen=item.frozen,
    )
