"""From a captured graph to an unverified repro: localize → reduce → blame → emit.

A failure counts as deterministic until a run does not show it. Candidates accepted by then stay accepted, but others
may have been refused by chance: the reduction continues from there with a sequential oracle (`oracle/sequential.py`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from threading import Event

from minimizer.engine.budget.clock import suppressing_end_of_time
from minimizer.engine.budget.patience import (
    BLAME_SHARE,
    CLIMB_SHARE,
    FLAKY_RUNS,
    LEAST_TIMEOUT,
    WHOLE_SHARE,
    WRITE_SECONDS,
)
from minimizer.engine.child.outcome import Ending, Outcome
from minimizer.engine.diagnose.ladder import cheapest, climb, on_backend
from minimizer.engine.diagnose.operator_contract import broken_operator
from minimizer.engine.findings import Fault
from minimizer.engine.journal import Journal
from minimizer.engine.levels.checkpoint import Checkpoint, Keeper, restore, save
from minimizer.engine.levels.culprits import culprits
from minimizer.engine.levels.draft import ALWAYS, Draft, GraphCulprit, Way, Writer, always
from minimizer.engine.levels.from_outcomes import culprit_of, failure_of, mechanism_of
from minimizer.engine.levels.window import Unreduced, Vanishes, WindowSearch, accepted
from minimizer.engine.localize.localize import Localized
from minimizer.engine.oracle.oracle import Measured, Oracle
from minimizer.engine.oracle.signature import Signature, also_seen, signature_of
from minimizer.engine.program.model import Program
from minimizer.engine.reduce.graph import Check, Reduced, reduce
from minimizer.engine.reduce.graph.public_names import publish
from minimizer.engine.reduce.python.definitions import polish
from minimizer.engine.reduce.words import said
from minimizer.engine.survey.cases import Case, Settled
from minimizer.engine.verify.clean_process_oracle import Alone, Fails, last_that_fails
from minimizer.engine.verify.reserve import to_finish, to_verify
from minimizer.errors import BudgetExceeded, Cancelled
from minimizer.report.model import HistoryStep, Reduction, Reproducibility
from minimizer.vocabulary import Kind, Reason, Stage, Status, Step, counted

BACKWARD = re.compile(r"\bbackward\(|\bautograd\.grad\(")
"""Matches a backward in a script's text: the only sign that a script trains, if it fails before its first backward."""
UNLOCATED = "There was no time to look for the part of the graph that fails: the repro holds the whole graph. A larger --budget may shrink it."
UNSEEN = "The script fails, and in the time for that no part of its graph was seen to fail by itself: a larger --budget may show one."
UNSTEADY = (
    "Eager differs from eager: the part of the graph that fails does not always give the same without the compiler."
)
UNBLAMED = "There was no time left to tell which stage of the compiler fails: a larger --budget may tell."

Repeat = Callable[[Reproducibility, int, Event], Future[Reproducibility]]
"""Runs the script again in the background, to measure how often it fails: see `failure_rate`."""


class Search:
    """The search for a repro of one ``case``, judged by ``oracle``.

    ``script``: the user's. ``target``: the root to reduce, as for `localize`. ``jobs``: trials in parallel.
    ``vanishes``: as for `WindowSearch`.
    """

    def __init__(
        self,
        case: Case,
        oracle: Oracle,
        journal: Journal,
        *,
        script: Path,
        target: str | None,
        jobs: int,
        vanishes: Vanishes = lambda: None,
    ) -> None:
        self._script = script
        self._case, self._journal, self._jobs = case, journal, jobs
        source = script.read_text(errors="replace")
        self._lines = sum(bool(line.strip()) for line in source.splitlines())
        self._trains = BACKWARD.search(source) is not None
        self._oracle = oracle
        self._windows = WindowSearch(case, oracle, journal, target, vanishes)
        self._writer = Writer(case, oracle, journal)
        pace, kind = journal.clock.pace, case.signature.kind
        self._to_finish, self._to_verify = partial(to_finish, pace, kind), partial(to_verify, pace, kind)
        self._accepted: list[Program] = []
        self._shown: Outcome | None = None
        """An outcome of the smallest failing program so far; None if unknown."""

    def run(self, repeat: Repeat, announced: Fault) -> Draft:
        """Run the steps in order. A search that is cut short emits the best program so far, in time reserved for that.

        Raises:
            Unreduced: no window of the graph fails in isolation.
            Unanswered: the graph cannot be taken apart.
        """
        case, oracle, journal, over = self._case, self._oracle, self._journal, Event()
        seen = Reproducibility(failed=1, runs=case.runs)
        if not always(seen):
            oracle.expect(seen)
        try:
            repeats = repeat(seen, 2, over)  # in parallel to the search, which seldom uses all cores
            if case.otherwise is not None:  # a suspect is not a failure if this ends early
                journal.record(replace(announced, failure=None))
            start = self._locate()
            program, located = start.program, start.located
            fault = journal.add(failure=located.failure or announced.failure)
            with self._journal.clock.reserving(self._to_finish):
                with suppress(BudgetExceeded, Cancelled):  # if the pin is cut short by the time, no candidates follow
                    pin(oracle, case.signature, start.best)
                with self._journal.step(Step.REDUCE):
                    if oracle.sequential is not None:
                        with suppress(BudgetExceeded, Cancelled):
                            oracle.estimate((start.best, program))
                    reduced, fault = self._reduce(start, fault)
                    seen = repeats.result()  # inside the step, whose time limit bounds this wait
            measured, fault = self._blame(reduced.best, located, fault)
            is_flaky = not (measured.is_steady and always(seen))
            if is_flaky and oracle.sequential is None:
                with self._journal.clock.reserving(self._to_finish), suppress(BudgetExceeded, Cancelled):
                    repeats = repeat(seen, FLAKY_RUNS, over)
                    fault = fault.counting(one_minimal=False)
                    reduced, fault = self._reduce_again(start, reduced.best, fault)
                    seen = repeats.result()
                measured, fault = self._blame(reduced.best, located, fault)
            if measured.outcome.ending is Ending.NONDETERMINISTIC:
                journal.record(replace(fault, failure=None, culprits=()))
                raise Unreduced(Settled(Status.FAILED, Reason.NONDETERMINISTIC, UNSTEADY, case.checked))
        finally:
            over.set()  # stop the repeats: their rate is no longer needed, and the next suspect needs the machine
            fault = journal.add(also_seen=tuple(also_seen(oracle.also_seen)))  # however far the search came
        fault = fault.stating(reproducibility=seen)
        self._note_flaky(seen, measured.rate)
        with self._journal.clock.undisturbed(WRITE_SECONDS), self._journal.step(Step.EMIT):
            is_measured = is_flaky and (measured.rate.runs >= FLAKY_RUNS or not measured.is_steady)
            draft = self._writer.draft(reduced.best, measured, measured.rate if is_measured else seen, fault)
        wants_gradients = located.window.grad or self._trains
        program = program if wants_gradients else program.without_grad()
        found = GraphCulprit(case, oracle, program, located, reduced.best)
        is_last = is_flaky or draft.details is None
        way = None if is_last else Way(start, tuple(self._accepted), self._shown)
        return replace(draft, found=found, way=way)

    def _locate(self) -> Checkpoint:
        """Find a window that fails in isolation, as the start of the reduction; on timeout, the whole graph.

        Raises:
            Unreduced: no window fails in isolation; or none was found in time, and time is left for other routes.
            BudgetExceeded: the time is over, and the whole graph did not fail within the reserve.
        """
        try:
            with self._journal.clock.reserving(self._to_finish), self._journal.step(Step.LOCALIZE):
                start = self._resume() or self._windows.find()
        except BudgetExceeded as error:
            whole = self._whole() if error.is_time else None
            if whole is not None:
                return whole
            if error.is_time and self._case.otherwise is None and self._journal.clock.spare > LEAST_TIMEOUT:
                raise Unreduced(Settled(Status.PARTIAL, Reason.NOT_VERIFIED, UNSEEN, self._case.checked)) from None
            raise
        self._shown = self._oracle.shown(start.best)
        return start

    def _whole(self) -> Checkpoint | None:
        """The whole graph, if it fails in isolation; None for a suspect, and if there is no time to run it."""
        program, clock = self._case.program.as_compiled(), self._journal.clock
        if self._case.otherwise is not None:
            return None
        with suppress(BudgetExceeded), clock.undisturbed(WRITE_SECONDS), clock.reserving(self._to_verify, WHOLE_SHARE):
            (outcome,) = self._oracle.judge([program])
            if self._oracle.same(outcome):
                self._shown = outcome
                self._journal.note(UNLOCATED)
                signature = signature_of(outcome) if self._oracle.accepts != accepted(self._case.signature) else None
                failure = failure_of(outcome, signature) if signature is not None else None
                located = Localized(program, (), (), confirmed=True, failure=failure)
                return Checkpoint(program, located, program)
        return None

    def firmer(self, way: Way, found: GraphCulprit, fault: Fault, fails: Fails) -> Draft | None:
        """Reduce again, from the smallest accepted program that fails in a clean process, and check each step in one.

        None if no accepted program fails there. ``way``: the search behind ``found``, which does not fail there, and its
        ``fault``.

        Raises:
            BudgetExceeded: the time ended before one was found.
        """
        start, self._shown = way.start, way.shown
        # A checkpoint stores only its last program; of the earlier ones, only the window is known.
        earlier = [start.located.window] if start.history else []
        candidate = partial(self._writer.candidate, fault)
        alone, programs = Alone(self._oracle, candidate, fails), [*earlier, start.best, *way.accepted]
        before = fault.reduced
        with self._journal.clock.reserving(self._to_finish), self._journal.step(Step.REDUCE):
            reached = last_that_fails(programs, alone.check)
            if reached is None:
                return None
            steps = len(start.history) + reached - len(earlier) if reached >= len(earlier) else 0
            start = replace(
                start, best=programs[reached], seconds=before.seconds, history=tuple(before.history[:steps])
            )
            save(start, self._case, self._journal.sink)
            reduced, fault = self._reduce(start, fault, alone.check)
        measured, fault = self._blame(reduced.best, found.located, fault)
        with self._journal.clock.undisturbed(WRITE_SECONDS), self._journal.step(Step.EMIT):
            rate = fault.announced.reproducibility if measured.is_steady else measured.rate
            draft = self._writer.draft(reduced.best, measured, rate, fault)
        return replace(draft, found=replace(found, reduced=reduced.best))

    def _note_flaky(self, script: Reproducibility, repro: Reproducibility) -> None:
        if not (always(script) and always(repro)):
            self._journal.note(
                f"The failure is flaky: it showed in {script.failed} of {script.runs} runs of the script, and in "
                f"{repro.failed} of {repro.runs} compilations of the repro."
            )

    def _resume(self) -> Checkpoint | None:
        start = restore(self._case, self._oracle, self._journal.sink)
        if start is not None:
            self._journal.add(layers=start.located.layers)
            self._journal.note(
                f"An earlier attempt was cut short; this one goes on from {counted(start.best.size, 'node')}."
            )
        return start

    def _reduce(self, start: Checkpoint, fault: Fault, check: Check | None = None) -> tuple[Reduced[Program], Fault]:
        program, oracle, journal = start.program, self._oracle, self._journal
        backend = self._cheapest(start.best) if check is None else None
        check = check or (partial(self._check_on, backend) if backend is not None else oracle.check)
        self._accepted = []
        lines = fault.reduction.lines_after if fault.reduction is not None else 0
        earlier, keeper = oracle.trials, Keeper(start, self._case, oracle, journal, lines)

        def record(step: HistoryStep, best: Program) -> None:
            trials = earlier + step.trial
            reached = replace(fault, reduction=self._reduction(program, step.nodes, trials, keeper.lines))
            journal.record(reached)
            journal.progress(nodes=step.nodes, nodes_before=program.size, trials=trials, message=said(step.by))
            keeper.step(step, best, reached)
            self._accepted.append(best)
            self._shown = oracle.shown(best) or self._shown

        reduced = reduce(
            start.best,
            check=check,
            literal=self._case.survey.literal,
            on_step=record,
            jobs=self._jobs,
            watch=oracle.watch,
        )
        if reduced.one_minimal:
            with suppress(BudgetExceeded):
                reduced = replace(reduced, best=self._polished(publish(reduced.best, check), check))
        reduction = self._reduction(program, reduced.best.size, oracle.trials, keeper.lines)
        fault = replace(fault, reduction=reduction).counting(
            cache_hits=reduced.cache_hits,
            one_minimal=reduced.one_minimal,
            history=keeper.history,
            seconds=round(start.seconds + reduced.seconds, 2),
        )
        journal.record(fault)
        return (reduced, fault) if backend is None else self._confirmed(start, reduced, fault)

    def _cheapest(self, program: Program) -> str | None:
        """The backend to reduce on; None for the program's own.

        None for a flaky failure, which needs repeated compilations, and for a hang, which costs its timeout on every
        backend.
        """
        if self._oracle.sequential is not None or self._case.signature.kind is Kind.HANG:
            return None
        clock = self._journal.clock
        with suppress(BudgetExceeded, Cancelled), clock.within(CLIMB_SHARE * clock.left):
            return cheapest(program, self._oracle)
        return None

    def _check_on(self, backend: str, programs: Sequence[Program]) -> list[bool]:
        return self._oracle.check([on_backend(program, backend) for program in programs])

    def _confirmed(self, start: Checkpoint, reduced: Reduced[Program], fault: Fault) -> tuple[Reduced[Program], Fault]:
        """Check a program reduced on a lower rung on its own backend.

        If it passes there, reduce on from the last one that fails.
        """
        check, way = self._oracle.check, [start.best, *self._accepted]
        with suppress(BudgetExceeded, Cancelled):
            if check([reduced.best])[0]:
                self._shown = self._oracle.shown(reduced.best) or self._shown
                return reduced, fault
            self._journal.log("what was reduced on a lower rung of the ladder does not fail on its own backend")
            reached = last_that_fails(way, check) or 0
            steps = tuple(fault.reduced.history[: len(start.history) + reached])
            again = replace(start, best=way[reached], seconds=start.seconds + reduced.seconds, history=steps)
            return self._reduce(again, fault, check)
        return reduced, fault  # clean processes decide

    def _polished(self, program: Program, check: Check) -> Program:
        oracle = self._oracle
        if oracle.sequential is not None:  # without a statement, the failure may only change its rate
            return program
        seen = oracle.also_seen.copy()
        polished = polish(program, check, jobs=self._jobs, watch=self._journal.watch)
        oracle.also_seen = seen  # failures of a pass that lacks a statement are not the script's
        return polished

    def _reduce_again(self, start: Checkpoint, best: Program, fault: Fault) -> tuple[Reduced[Program], Fault]:
        """Reduce with a sequential oracle, from the smallest that fails often enough: best, window or whole graph."""
        oracle, reduction = self._oracle, fault.reduced
        self._journal.record(fault)
        window, whole = start.located.window, start.program
        with self._journal.step(Step.REDUCE):
            oracle.estimate((window, whole))
            best = next((program for program in (best, window) if oracle.check([program])[0]), whole)
            again = replace(start, best=best, seconds=reduction.seconds, history=tuple(reduction.history))
            return self._reduce(again, fault)

    def _reduction(self, program: Program, nodes: int, trials: int, lines: int) -> Reduction:
        return Reduction(
            level="aot" if program.level == "aot" else "dynamo",
            nodes_before=program.size,
            nodes_after=nodes,
            lines_before=self._lines,
            lines_after=lines,
            trials=trials,
        )

    def _blame(self, program: Program, located: Localized, fault: Fault) -> tuple[Measured, Fault]:
        """Find the stage and the culprit; only the culprit's nodes if the time before the verification's reserve does
        not suffice.
        """
        journal, oracle, clock = self._journal, self._oracle, self._journal.clock
        reserve = clock.reserving(self._to_verify, BLAME_SHARE)
        with suppressing_end_of_time(), clock.undisturbed(WRITE_SECONDS), reserve, journal.step(Step.BLAME):
            stage, ladder, measured = climb(program, oracle)
            fault = fault.stating(stage=stage, **mechanism_of(measured.outcome.verdict))
            fault = journal.record(replace(fault, ladder=tuple(ladder)))
            operators = oracle.operators(program)
            if fault.reduced.level == "dynamo":
                fault = fault.counting(aot_nodes_after=len(operators))
            culprit = culprit_of(program, operators, measured.outcome, located.window)
            if (broken := broken_operator(program, located.window, oracle)) is not None:
                fault, culprit = fault.stating(stage=Stage.CUSTOM_OP), broken.culprit(culprit, self._script)
            return measured, journal.blame(replace(fault, culprits=culprits(located, culprit)))
        if fault.announced.stage is Stage.UNKNOWN:  # for a flaky failure, a first search already found it
            journal.note(UNBLAMED)
        if self._shown is None:
            with clock.undisturbed(WRITE_SECONDS):
                (self._shown,) = oracle.judge([program])
        culprit = culprit_of(program, (), self._shown, located.window)
        return Measured(self._shown, ALWAYS), journal.record(replace(fault, culprits=culprits(located, culprit)))


def pin(oracle: Oracle, signature: Signature, window: Program) -> None:
    """Require NaN or infinities of every candidate, if they are the failure and the window shows them."""
    if signature.nonfinite:
        (outcome,) = oracle.judge([window])
        shown = signature_of(outcome)
        if shown is not None and shown.nonfinite:
            oracle.aim_at(tuple(replace(accepted, nonfinite=True) for accepted in oracle.accepts))
