"""The whole story: script → survey → localize → reduce → blame → emit → verify → witness → sink.

Each step leaves a valid report behind, so that the best result so far is there whenever the work is stopped.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from minimizer import report_md, witness
from minimizer.blame import climb
from minimizer.checkpoint import NAME as CHECKPOINT
from minimizer.checkpoint import Checkpoint, Keeper, data_of, keep_repro, restore
from minimizer.emit import Details, Repro, emit
from minimizer.emit.idioms import REPRO_SECONDS
from minimizer.errors import BudgetExceeded, Cancelled, ChildFailed, MissingTool, Unanswered
from minimizer.evidence import culprit_of, details_of, verdict_sentence
from minimizer.executor import Executor, Place
from minimizer.further import Found, write_further
from minimizer.journal import Journal
from minimizer.localize import Localized, Region, confirm_discrete, confirm_local, find_root, localize
from minimizer.options import Options
from minimizer.oracle import Measured, Oracle, Signature, exception_signature
from minimizer.program import Program
from minimizer.publish import publish
from minimizer.python_level import PythonLevel
from minimizer.reduce import Reduced, reduce
from minimizer.report import AlsoSeen, Checked, Culprit, Failure, HistoryStep, Layer, Reduction, Report, Reproducibility
from minimizer.sandbox import Sandbox
from minimizer.settings import Settings
from minimizer.sink import Sink
from minimizer.triage import HANG_AFTER, PATIENCE, REPEAT_SECONDS, Case, ScriptCase, Settled, Triage
from minimizer.types import Kind, Reason, Status, Step, counted
from minimizer.verify import VERIFY_RUNS, VERIFY_SECONDS, verify
from minimizer.workplace import granted, open_place

WITNESS_SECONDS = 120.0
OTHER_ROOT = "fails by itself too; --target reduces it first"
FLAKY_RUNS, FLAKY_SECONDS = 5, 60.0
"""How often a script is run, in all, whose failure does not always show; none is begun after that time."""
WARM_UP = {
    "setup": "import torch", "source": "def f(x):\n    return x + 1\n", "name": "f", "compile_kwargs": "", "grad": False,
    "inputs": [{"name": "x", "code": "torch.ones(8)", "requires_grad": False}], "golden_files": [], "tolerance": None,
}  # fmt: skip
"""A trial beside the survey: it has the compiler's headers precompiled by the time the script's first kernel is built."""
FINISH_SECONDS = 45.0
"""Kept free at the end of the budget, so that the best result so far can be written and verified."""


def minimize(
    script: Path,
    *,
    options: Options,
    settings: Settings,
    sink: Sink,
    python: Path | None = None,
    binds: Sequence[Path] = (),
    network: bool = False,
) -> Report:
    """Reduce the failure of a script; the report says how it ended, and never is an exception raised for a failing script.

    Args:
        script: the user's file; its folder is readable to it, its working directory is thrown away.
        options: what the user asked for.
        settings: sandbox mode, trials at once, memory of a trial.
        sink: receives events, artifacts and the report.
        python: the interpreter that runs the script; the one we run in by default.
        binds: further paths the script may read.
        network: whether it may use the network.
    """
    report = Report()
    journal = Journal(sink, report, options.budget)
    scratch = Path(tempfile.mkdtemp(prefix="minimizer-"))
    try:
        _Job(
            script, options, settings, journal, scratch / "shared", python or Path(sys.executable), binds, network
        ).run()
    except (Cancelled, KeyboardInterrupt):
        _end(report, Status.CANCELLED, Reason.INTERRUPTED, "Cancelled; the best result so far is kept.")
    except BudgetExceeded as error:
        _end(report, Status.PARTIAL, Reason.BUDGET, f"Stopped: {error}. The best result so far is kept.")
    except MissingTool as error:
        _end(report, Status.FAILED, Reason.NOT_RUNNABLE, str(error))
    except ChildFailed as error:
        _end(report, Status.FAILED, Reason.NOT_RUNNABLE, f"The script could not be run to an answer: {error}")
    except Exception as error:
        journal.log(traceback.format_exc())
        _end(
            report,
            Status.FAILED,
            Reason.INTERNAL_ERROR,
            f"A fault of our own: {type(error).__name__}; run.log has more.",
        )
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    if report.reason not in (Reason.BUDGET, Reason.INTERRUPTED):  # those may be tried again, and go on from there
        sink.discard(CHECKPOINT)
    sink.artifact("report.md", report_md.render(report, script_name=script.name, repro=journal.repro).encode())
    journal.keep()
    return report


def _end(report: Report, status: Status, reason: Reason, summary: str) -> None:
    """Close a report early; what was minimized before stays so."""
    if report.status is not Status.MINIMIZED:
        report.status, report.reason, report.summary = status, reason, f"{report.summary} {summary}".strip()


class _Unreduced(Exception):
    """The search ended without a window that fails by itself; ``settled`` is the verdict."""

    def __init__(self, settled: Settled) -> None:
        super().__init__(settled.summary)
        self.settled = settled


Repeat = Callable[[Reproducibility, int], Future[Reproducibility]]
"""Runs the script again, behind what is under way: see `_repeat`."""


@dataclass(frozen=True)
class _Result:
    """What the search ended with.

    ``rewrite``: write a repro that seemed to fail always for a failure of this rate. ``found``: where further culprits are
    looked for.
    """

    repro: Repro
    data: bytes | None = None
    rewrite: Callable[[Reproducibility], Repro] | None = None
    found: Found | None = None


class _Job:
    """One run of the pipeline."""

    def __init__(
        self,
        script: Path,
        options: Options,
        settings: Settings,
        journal: Journal,
        scratch: Path,
        python: Path,
        binds: Sequence[Path],
        network: bool,
    ) -> None:
        self._script, self._options, self._settings, self._journal = script, options, settings, journal
        self._report = journal.report
        self._scratch, self._python, self._binds, self._network = scratch, python, binds, network
        self._scratch.mkdir()

    def run(self) -> None:
        """Every step in order."""
        with ExitStack() as stack:
            beside = ThreadPoolExecutor(1)
            stack.callback(beside.shutdown)  # after the executor has closed, so that it has nothing left to wait for
            with self._journal.step(Step.PREPARE):
                place = self._prepare()
                executor = Executor(place, jobs=self._settings.trial_jobs, watch=self._journal.watch)
                stack.enter_context(executor)
                self._start(executor)
            triage = self._triage(executor)
            with self._journal.step(Step.SURVEY):
                beside.submit(executor.judge, [WARM_UP], timeout=VERIFY_SECONDS)
                found = triage.run()
            if isinstance(found, Settled):
                self._settle(found)
                return
            try:
                if isinstance(found, ScriptCase):
                    raise _Unreduced(found.otherwise)
                self._announce(found)
                result = self._search_down(
                    found, executor, lambda seen, enough: beside.submit(_repeat, triage, found, seen, enough)
                )
            except (_Unreduced, Unanswered) as end:
                otherwise = end.settled if isinstance(end, _Unreduced) else _unanswered(end)
                script_repro = (
                    None if otherwise.reason is Reason.NONDETERMINISTIC else self._script_repro(executor, otherwise)
                )
                if script_repro is None:
                    self._settle(otherwise)
                    return
                result = _Result(script_repro)
            with self._journal.step(Step.VERIFY):
                self._journal.watch()
                self._verify(result, place)
            self._journal.keep()
            if result.found is not None:
                with self._journal.reserving(WITNESS_SECONDS if self._options.witness else FINISH_SECONDS):
                    write_further(result.found, place=place, journal=self._journal, jobs=self._settings.trial_jobs)
        if self._options.witness:
            with self._journal.step(Step.WITNESS):
                self._hear_witnesses(place)

    def _script_repro(self, executor: Executor, otherwise: Settled) -> Repro | None:
        level = PythonLevel(executor, self._script, self._options.args, self._journal, jobs=self._settings.trial_jobs)
        return level.repro(otherwise)

    def _start(self, executor: Executor) -> None:
        ready = executor.start()
        if self._options.device == "cuda" and not ready.gpu:
            raise MissingTool("--device cuda: no CUDA device is visible, or this torch is built without CUDA.")
        self._report.environment = {"torch": ready.torch, "python": ready.python, "cuda": ready.cuda}

    def _search_down(self, case: Case, executor: Executor, repeat: Repeat) -> _Result:
        """Localize, reduce, blame, emit. The search leaves time to finish; where it is cut short, the best is emitted.

        A failure counts as one that always shows until it is seen not to. What was accepted before that holds, but what was
        refused may have been refused by chance: the reduction goes on from there with a sequential oracle.
        """
        oracle = Oracle(executor, case.survey, _accepted(case.signature), case.tolerance)
        finish = _finish_seconds(case.signature.kind)
        seen = Reproducibility(failed=1, runs=case.runs)
        if not _always(seen):
            oracle.expect(seen)
        try:
            with self._journal.reserving(finish):
                repeats = repeat(seen, 2)  # beside the search, which seldom fills all cores
                with self._journal.step(Step.LOCALIZE):
                    start = self._resume(case, oracle) or self._localize(case, oracle)
                    program, located = start.program, start.located
                with self._journal.step(Step.REDUCE):
                    if oracle.sequential is not None:
                        with suppress(BudgetExceeded, Cancelled):
                            oracle.estimate((start.best, program))
                    reduced = self._reduce(start, oracle, case)
                    seen = repeats.result()  # here, where it ends at once if the time does
            measured = self._blame(reduced.best, located, oracle, finish)
            is_flaky = not (measured.is_steady and _always(seen))
            if is_flaky and oracle.sequential is None:
                with self._journal.reserving(finish), suppress(BudgetExceeded, Cancelled):
                    repeats = repeat(seen, FLAKY_RUNS)
                    reduced = self._reduce_again(start, reduced.best, oracle, case)
                    seen = repeats.result()
                measured = self._blame(reduced.best, located, oracle, finish)
            if measured.outcome.outcome == "nondeterministic":
                raise _Unreduced(self._nondeterministic(case))
        finally:
            self._report.also_seen = [
                AlsoSeen(kind=s.kind, signature=s.text, message=s.message, times=n)
                for s, n in oracle.also_seen.most_common(20)
            ]
        self._count(seen, measured.rate)
        with self._journal.undisturbed(finish), self._journal.step(Step.EMIT):
            is_measured = is_flaky and (measured.rate.runs >= FLAKY_RUNS or not measured.is_steady)
            result = self._emit(reduced.best, measured, case, measured.rate if is_measured else seen)
        return replace(result, found=Found(case, oracle, program, located, reduced.best))

    # steps -------------------------------------------------------------------------------------------------------

    def _prepare(self) -> Place:
        sandbox = Sandbox.choose(self._settings.sandbox)
        if sandbox.notice:
            self._journal.note(sandbox.notice)
        return open_place(
            self._script,
            sandbox=sandbox,
            scratch=self._scratch,
            python=self._python,
            binds=self._binds,
            network=self._network,
            memory_bytes=self._settings.trial_memory_bytes,
            environment=granted(self._options, self._settings, self._journal.note),
        )

    def _triage(self, executor: Executor) -> Triage:
        return Triage(
            executor,
            self._script.resolve(),
            args=self._options.args,
            steps=self._options.steps,
            hang_after=self._options.hang_after or HANG_AFTER,
            patience=min(PATIENCE, self._options.budget / 3),
            repeat_seconds=max(REPEAT_SECONDS, self._options.budget / 10),
            values=self._options.expect in ("auto", "accuracy"),
            on_note=self._journal.note,
        )

    def _settle(self, found: Settled) -> None:
        report = self._report
        report.status, report.reason, report.summary = found.status, found.reason, found.summary
        report.checked = Checked(**found.checked.model_dump())
        for note in found.notes:
            self._journal.note(note)
        if found.kind is not None:
            error = found.exception
            report.failure = Failure(
                kind=found.kind,
                exception_type=error.root_type if error else None,
                message=error.root_message[:2000] if error else found.summary,
                signature=exception_signature(found.kind, error).text,
            )

    def _announce(self, case: Case) -> None:
        report, signature = self._report, case.signature
        devices = {i.meta.device for i in case.program.inputs if i.meta is not None}
        report.environment["device"] = "cuda" if "cuda" in devices else "cpu"
        report.checked = Checked(**case.checked.model_dump())
        report.failure = Failure(
            kind=signature.kind,
            exception_type=case.exception.root_type if case.exception else None,
            message=case.message,
            signature=signature.text,
            reproducibility=Reproducibility(failed=1, runs=case.runs),
        )
        self._journal.event("failure", failure=report.failure.model_dump(mode="json"))

    def _count(self, script: Reproducibility, repro: Reproducibility) -> None:
        assert self._report.failure is not None
        self._report.failure.reproducibility = script
        if not (_always(script) and _always(repro)):
            self._journal.note(
                f"The failure is flaky: it showed in {script.failed} of {script.runs} runs of the script, and in "
                f"{repro.failed} of {repro.runs} compilations of the repro."
            )

    def _resume(self, case: Case, oracle: Oracle) -> Checkpoint | None:
        start = restore(case, oracle, self._journal.sink)
        if start is not None:
            self._report.layers = list(start.located.layers)
            self._journal.note(
                f"An earlier attempt was cut short; this one goes on from {counted(start.best.size, 'node')}."
            )
        return start

    def _localize(self, case: Case, oracle: Oracle) -> Checkpoint:
        """Find the window that fails alone: without gradients where none are at fault, and on aten operators at last."""
        program = case.program.dynamic() if case.program.is_symbolic else case.program
        if case.otherwise is not None:
            window = confirm_discrete(program, oracle) or confirm_local(program, oracle)
            if window is None:
                self._report.failure = None
                raise _Unreduced(case.otherwise)
            return Checkpoint(program, Localized(window, (), (), confirmed=True), window)
        located = self._confirmed(program, case, oracle)
        if located is None and (lowered := self._lowered(case, program)) is not None:
            program = lowered
            located = self._confirmed(program, case, oracle)
        if located is not None:
            return Checkpoint(program, located, located.window)
        vanishes = (
            "The script fails, but its graph does not when it is run by itself: observing it makes the failure vanish."
        )
        raise _Unreduced(Settled(Status.PARTIAL, Reason.NOT_VERIFIED, vanishes, case.checked))

    def _lowered(self, case: Case, program: Program) -> Program | None:
        """The program in aten operators; None if it is that already, or cannot be traced."""
        if program.level != "dynamo":
            return None
        try:
            lowered = replace(case.survey.program("aot"), setup=program.setup)
        except ChildFailed as error:
            self._journal.note(f"The graph could not be traced into aten operators: {error}")
            return None
        return lowered.dynamic() if lowered.is_symbolic else lowered

    def _confirmed(self, program: Program, case: Case, oracle: Oracle) -> Localized | None:
        """A window that fails alone; where nothing does at the first attempt, but the graph does now and then, once more."""
        variants = [program]
        if program.grad and case.signature.kind is not Kind.WRONG_GRADIENT:
            variants.insert(0, program.without_grad())
        if program.level == "dynamo" and program != case.program:
            # Only the symbols of the compiler's own choice, where more of them hide the failure.
            variants += [replace(v, compile_kwargs=case.program.compile_kwargs, marked=True) for v in variants]
        for variant in variants:
            located = self._search(variant, oracle)
            if located.confirmed:
                return located
        if oracle.sequential is None and (rate := oracle.measure(program).rate).failed:
            oracle.expect(rate)
            return self._confirmed(program, case, oracle)
        return None

    def _search(self, program: Program, oracle: Oracle) -> Localized:
        def show(layer: Layer) -> None:
            self._journal.log(f"region {layer.path or '(no module)'}: {layer.verdict} {layer.local_error}")

        self._journal.progress(
            nodes=program.size, nodes_before=program.size, trials=oracle.trials, message="judging regions"
        )
        target = self._options.target
        located = localize(program, oracle, target=target, on_region=show)
        if target is not None and find_root(located.roots, target) is None:
            names = [root.path for root in located.roots]
            self._journal.note(f"--target {target} names no failing region; those are {', '.join(names) or 'unknown'}.")
        self._report.layers = list(located.layers)
        self._journal.progress(
            nodes=located.window.size, nodes_before=program.size, trials=oracle.trials, message="localized"
        )
        return located

    def _reduce(self, start: Checkpoint, oracle: Oracle, case: Case) -> Reduced[Program]:
        program, earlier = start.program, oracle.trials
        report, keeper = self._report, Keeper(start, case, oracle, self._journal)

        def record(step: HistoryStep, best: Program) -> None:
            trials = earlier + step.trial
            report.reduction = self._reduction(program, step.nodes, trials)
            self._journal.progress(nodes=step.nodes, nodes_before=program.size, trials=trials, message=step.by)
            keeper.step(step, best)

        reduced = reduce(
            start.best,
            check=oracle.check,
            literal=case.survey.literal,
            on_step=record,
            jobs=self._settings.trial_jobs,
        )
        if program.level == "aot" and reduced.one_minimal:
            with suppress(BudgetExceeded):
                reduced = replace(reduced, best=publish(reduced.best, oracle.check))
        reduction = self._reduction(program, reduced.best.size, oracle.trials)
        reduction.cache_hits, reduction.one_minimal = reduced.cache_hits, reduced.one_minimal
        reduction.history, reduction.seconds = keeper.history, round(start.seconds + reduced.seconds, 2)
        report.reduction = reduction
        return reduced

    def _reduce_again(self, start: Checkpoint, best: Program, oracle: Oracle, case: Case) -> Reduced[Program]:
        """Go on sequentially from the smallest program that fails often enough: the best, the window, or the whole graph."""
        reduction = self._report.reduction
        assert reduction is not None
        reduction.one_minimal = False
        window, whole = start.located.window, start.program
        with self._journal.step(Step.REDUCE):
            oracle.estimate((window, whole))
            best = next((program for program in (best, window) if oracle.check([program])[0]), whole)
            again = replace(start, best=best, seconds=reduction.seconds, history=tuple(reduction.history))
            return self._reduce(again, oracle, case)

    def _reduction(self, program: Program, nodes: int, trials: int) -> Reduction:
        lines = sum(bool(line.strip()) for line in self._script.read_text(errors="replace").splitlines())
        level = "aot" if program.level == "aot" else "dynamo"
        return Reduction(level=level, nodes_before=program.size, nodes_after=nodes, lines_before=lines, trials=trials)

    def _blame(self, program: Program, located: Localized, oracle: Oracle, finish: float) -> Measured:
        report = self._report
        assert report.failure is not None and report.reduction is not None
        with self._journal.undisturbed(finish), self._journal.step(Step.BLAME):
            report.failure.stage, report.ladder, measured = climb(program, oracle)
            operators = oracle.operators(program)
            if report.reduction.level == "dynamo":
                report.reduction.aot_nodes_after = len(operators)
            culprit = culprit_of(program, operators, measured.outcome, located.window)
            others = [Culprit(module=root.path, what=OTHER_ROOT) for root in located.roots if not _holds(root, culprit)]
            report.culprits = [culprit, *others]
            self._journal.event("culprit", culprit=culprit.model_dump(mode="json"))
        return measured

    def _nondeterministic(self, case: Case) -> Settled:
        self._report.failure, self._report.culprits = None, []
        sentence = "Eager differs from eager: the part of the graph that fails does not always give the same without the compiler."
        return Settled(Status.FAILED, Reason.NONDETERMINISTIC, sentence, case.checked)

    def _emit(self, program: Program, measured: Measured, case: Case, rate: Reproducibility) -> _Result:
        details = details_of(program, measured.outcome, case.tolerance)
        if case.signature.kind is Kind.HANG and case.signature.where:
            details["stuck_in"] = case.signature.where.rpartition(":")[2]
        write = partial(self._write, program, details)
        repro = write(rate)
        result = _Result(repro, data_of(repro, case), write if _always(rate) else None)
        self._keep(result)
        return result

    def _write(self, program: Program, details: Details, rate: Reproducibility) -> Repro:
        report = self._report
        assert report.failure is not None
        return emit(
            program,
            report.failure,
            report.culprits,
            environment=report.environment,
            rate=rate,
            details=details,
        )

    def _keep(self, result: _Result) -> None:
        report, repro = self._report, result.repro
        assert report.reduction is not None
        report.reduction.lines_after = repro.lines
        keep_repro(repro, result.data, self._journal)
        self._journal.event("repro", lines=repro.lines, nodes=report.reduction.nodes_after, verified=False)

    def _verify(self, result: _Result, place: Place) -> None:
        report, repro = self._report, result.repro
        assert report.failure is not None and report.reduction is not None
        check = partial(
            verify,
            data=result.data,
            sandbox=place.sandbox,
            python=place.python,
            scratch=place.private("verify"),
            timeout=min(VERIFY_SECONDS, max(FINISH_SECONDS, self._journal.left)),
            runs=VERIFY_RUNS,
            watch=self._journal.watch_owner,
        )
        complaints: list[str] = []
        verification = check(repro, on_note=complaints.append)
        if 0 < verification.failed_same < verification.runs and result.rewrite is not None:
            # It looked as if it always showed, and does not: compiled anew in one process, it may.
            rate = Reproducibility(failed=verification.failed_same, runs=verification.runs)
            repro = result.rewrite(rate)
            self._keep(replace(result, repro=repro))
            complaints.clear()
            verification = check(repro, on_note=complaints.append)
        for complaint in complaints:
            self._journal.note(complaint)
        report.verification = verification
        self._journal.event("repro", lines=repro.lines, nodes=report.reduction.nodes_after, verified=verification.holds)
        report.summary = verdict_sentence(report)
        if not verification.holds:
            report.status, report.reason = Status.PARTIAL, Reason.NOT_VERIFIED
        elif not report.reduction.one_minimal:
            report.status, report.reason = Status.PARTIAL, Reason.BUDGET
            report.summary += " The budget ended before it was minimal: a larger --budget may shrink it further."
        else:
            report.status, report.reason = Status.MINIMIZED, None

    def _hear_witnesses(self, place: Place) -> None:
        assert self._report.failure is not None
        testimonies = witness.hear(
            place,
            self._script.resolve(),
            self._options.args,
            self._report.failure.kind,
            seconds=min(WITNESS_SECONDS, self._journal.left),
            parallel=self._settings.trial_jobs,
            watch=self._journal.watch,
        )
        for testimony in testimonies:
            self._report.witnesses.append(testimony.witness)
            self._journal.log(testimony.log)
            if testimony.dump is not None:
                self._journal.sink.artifact(f"witness-{testimony.witness.after}.txt", testimony.dump)


def _unanswered(error: Unanswered) -> Settled:
    summary = f"The script fails, but its graph cannot be taken apart: {error}."
    return Settled(Status.PARTIAL, Reason.NOT_VERIFIED, summary)


def _repeat(triage: Triage, case: Case, seen: Reproducibility, enough: int) -> Reproducibility:
    """How often the script fails in the same way: ``enough`` runs if it always does, more if not; ``seen`` are counted."""
    failed, runs, stop = seen.failed, seen.runs, time.monotonic() + FLAKY_SECONDS
    with suppress(BudgetExceeded, Cancelled, ChildFailed):  # what was counted so far still holds
        while runs < 2 or (runs < (enough if failed == runs else FLAKY_RUNS) and time.monotonic() < stop):
            failed, runs = failed + triage.fails_again(case), runs + 1
    return Reproducibility(failed=failed, runs=runs)


def _finish_seconds(kind: Kind) -> float:
    """Kept free at the end of the budget; a hang has to be awaited once more to be verified."""
    return FINISH_SECONDS + (REPRO_SECONDS if kind is Kind.HANG else 0.0)


def _always(rate: Reproducibility) -> bool:
    return rate.failed == rate.runs


def _accepted(signature: Signature) -> tuple[Signature, ...]:
    """The ways of failing that count as this one: a wrong gradient is a wrong output of the joint graph."""
    if signature.kind is Kind.WRONG_GRADIENT:
        return (signature, replace(signature, kind=Kind.WRONG_OUTPUT))
    return (signature,)


def _holds(root: Region, culprit: Culprit) -> bool:
    return culprit.module == root.path or culprit.module.startswith(f"{root.path}.") or not root.path
