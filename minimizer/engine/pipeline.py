"""The whole story, in the order of `Step`: from a script to a verified repro, and from there to all that is worth knowing of it.

The steps from localize to emit are in `graph_search.py`, and in `script_search.py` for what no graph carries; those behind them are
in `follow_up.py`.
Each step leaves a valid report behind, so that the best result so far is there whenever the work is stopped.
"""

from __future__ import annotations

import sys
import traceback
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from functools import partial
from pathlib import Path

from minimizer.engine import budget
from minimizer.engine.between.exact_runs import Answer
from minimizer.engine.between.search import BetweenGraphs
from minimizer.engine.checkpoint import NAME as CHECKPOINT
from minimizer.engine.child.environment import Place
from minimizer.engine.child.executor import Executor
from minimizer.engine.child.gpu_memory import devices_of, freed
from minimizer.engine.child.prepare import granted, open_place
from minimizer.engine.child.requirements import require_modules
from minimizer.engine.child.scratch_disk import Scratch
from minimizer.engine.child.warden import Warden
from minimizer.engine.draft import Result
from minimizer.engine.follow_up import CHEAP_SECONDS, FollowUp
from minimizer.engine.graph_search import Unreduced
from minimizer.engine.journal import Journal
from minimizer.engine.oracle.oracle import exception_signature
from minimizer.engine.program.regions import Region
from minimizer.engine.routes import NO_ANSWER, Made, Routes, checked_of
from minimizer.engine.second_fault import see_graphs
from minimizer.engine.survey.cases import Case, ScriptCase, Settled, is_healthy, is_starved, layout_unmade
from minimizer.engine.survey.plain_runs import PlainRuns
from minimizer.engine.survey.runs import HANG_AFTER, Surveys
from minimizer.engine.survey.triage import REPEAT_SECONDS, Triage
from minimizer.engine.verify.clean_runs import VERIFY_SECONDS
from minimizer.engine.witness.adopt import take_up
from minimizer.errors import (
    BudgetExceeded,
    Cancelled,
    ChildFailed,
    MissingTool,
    WorkerTrouble,
    is_of_the_machine,
)
from minimizer.options import Options
from minimizer.report import as_markdown
from minimizer.report.issue import issue_of
from minimizer.report.model import Failure, Report, Reproducibility, ScriptError, Source
from minimizer.sandbox import choose_sandbox, without_bytecode
from minimizer.settings import Settings
from minimizer.sink import Sink
from minimizer.vocabulary import Kind, Reason, Status, Step, counted

EXACT_SECONDS, EXACT_SHARE = 60.0, 0.15
"""How long one exact run may take: so many seconds, or this share of the budget where that is more."""
WARM_UP = {
    "setup": "import torch", "source": "def f(x):\n    return x + 1\n", "name": "f", "compile_kwargs": "", "grad": False,
    "inputs": [{"name": "x", "code": "torch.ones(8)", "requires_grad": False}], "golden_files": [], "tolerance": None,
}  # fmt: skip
"""A trial beside the survey: it has the compiler's headers precompiled by the time the script's first kernel is built."""

AGAIN = (Reason.BUDGET, Reason.INTERRUPTED, Reason.WORKER_TROUBLE)
"""Ends after which a job may be tried again."""


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
    try:
        with Scratch() as scratch:
            _Job(script, options, settings, journal, scratch, python or Path(sys.executable), binds, network).run()
    except (Cancelled, KeyboardInterrupt):
        _end(report, Status.CANCELLED, Reason.INTERRUPTED, budget.ended(report, journal, "cancelled", is_time=False))
    except BudgetExceeded as error:
        why = budget.ended(report, journal, str(error), is_time=error.is_time)
        _end(report, Status.PARTIAL, Reason.BUDGET, why)
    except MissingTool as error:
        _end(report, Status.FAILED, Reason.NOT_RUNNABLE, str(error))
    except ChildFailed as error:
        if report.failure is not None:
            _end(report, Status.PARTIAL, Reason.NOT_VERIFIED, f"The failure could not be reduced: {error}")
        else:
            _end(report, Status.FAILED, Reason.NOT_RUNNABLE, f"The script could not be run to an answer: {error}")
    except Exception as error:
        journal.log(traceback.format_exc())
        if is_of_the_machine(error):
            _end(report, Status.FAILED, Reason.WORKER_TROUBLE, f"This machine could not do the job: {error}.")
        else:
            what = f"A fault of our own: {type(error).__name__}; run.log has more."
            _end(report, Status.FAILED, Reason.INTERNAL_ERROR, what)
    if report.reason not in AGAIN:  # those go on from there
        sink.discard(CHECKPOINT)
        if report.reason is not Reason.INTERNAL_ERROR:
            journal.hide()
    sink.artifact("report.md", as_markdown.render(report, script_name=script.name, repro=journal.repro).encode())
    issue = issue_of(report, journal.repro)
    if issue is None:
        sink.discard("issue.md")  # of an earlier run in the same place
    else:
        sink.artifact("issue.md", issue.text.encode())
    journal.keep()
    return report


def _end(report: Report, status: Status, reason: Reason, summary: str) -> None:
    """Close a report early; a verdict that was reached before stays."""
    if not report.status.is_final:
        report.status, report.reason, report.summary = status, reason, f"{report.summary} {summary}".strip()


class _Job:
    """One run of the pipeline."""

    def __init__(
        self,
        script: Path,
        options: Options,
        settings: Settings,
        journal: Journal,
        scratch: Scratch,
        python: Path,
        binds: Sequence[Path],
        network: bool,
    ) -> None:
        self._script, self._options, self._settings, self._journal = script, options, settings, journal
        self._report = journal.report
        self._disk, self._python, self._binds, self._network = scratch, python, binds, network
        self._scratch = scratch.path / "shared"
        self._scratch.mkdir()
        self._exact = NO_ANSWER

    def run(self) -> None:
        """Every step in order."""
        with ExitStack() as whole:
            with ExitStack() as stack:
                beside = ThreadPoolExecutor(1)
                stack.callback(
                    beside.shutdown
                )  # after the executor has closed, so that it has nothing left to wait for
                with self._journal.step(Step.PREPARE):
                    place = self._prepare(whole)
                    executor = Executor(place, jobs=self._settings.trial_jobs, watch=self._journal.watch)
                    stack.enter_context(executor)
                    self._start(executor)
                surveys, plain = self._surveys(executor), stack.enter_context(self._plain_runs(place))
                follow_up = FollowUp(self._script, place, surveys, self._journal, self._options, self._settings)
                try:
                    is_between, made = self._between_graphs(executor, follow_up)
                    routes = self._routes(executor, self._triage(surveys, plain), beside)
                    if not is_between:
                        made = self._made(surveys, plain, follow_up, routes)
                    if made is not None:
                        self._follow(made, follow_up, routes)
                    if is_between:
                        see_graphs(routes, follow_up)
                finally:
                    self._tell_of_memory(executor)
            if self._options.witness and self._wants_witnesses(follow_up):
                with follow_up.adding(Step.WITNESS):
                    self._hear(follow_up)

    def _made(self, surveys: Surveys, plain: PlainRuns, follow_up: FollowUp, routes: Routes) -> Made | None:
        """A repro that is not verified yet; None where the verdict is reached without one."""
        with self._journal.step(Step.SURVEY):
            routes.beside.submit(routes.executor.judge, [WARM_UP], timeout=VERIFY_SECONDS)
            try:
                found = routes.triage.run()
            except BudgetExceeded as error:
                if not error.is_time:
                    raise
                raise BudgetExceeded(f"{error}, {surveys.doing}") from None
        end = found if isinstance(found, Settled) else routes.follow(found)
        if isinstance(end, Made):
            return end
        # Plain runs are asked where no failure was seen, or one that is not ours to explain.
        is_error = isinstance(found, ScriptCase) and end.reason is Reason.NOT_VERIFIED and end.kind is not Kind.HANG
        if is_healthy(end) or is_starved(end) or is_error:
            end = self._against(plain, end, routes)
        last = routes.triage.by_layout(end)
        if isinstance(last, Case):
            try:
                return routes.by_graph(last)
            except (Unreduced, ChildFailed) as error:
                last = layout_unmade(end, str(error))
        self._conclude(last, follow_up)
        return None

    def _between_graphs(self, executor: Executor, follow_up: FollowUp) -> tuple[bool, Made | None]:
        """Whether the script sees something otherwise with the compiler that no graph shows, and its repro, not verified yet."""
        if self._options.nproc > 1 or self._options.expect not in ("auto", "accuracy"):
            return False, None
        budget = self._options.budget
        timeout = max(min(EXACT_SECONDS, budget / 4), EXACT_SHARE * budget)
        between = BetweenGraphs(
            executor,
            self._script.resolve(),
            self._options.args,
            self._journal,
            jobs=self._settings.trial_jobs,
            timeout=timeout,
        )
        with self._journal.step(Step.EXACT):
            try:
                answer = between.compare()
            except ChildFailed as error:
                answer = Answer(aside=str(error))
        self._exact = answer
        self._journal.log(f"exact runs: {answer.runs} runs, {answer.looks} looks {answer.aside}")
        if answer.found is None:
            return False, None
        repro = between.repro(answer.found)
        if repro is not None:
            return True, Made(Result(repro), None, partial(between.look_for_workaround, answer.found))
        with follow_up.adding(Step.DIAGNOSE):
            between.look_for_workaround(answer.found)
        assert self._report.failure is not None
        how = "No repro was made: what differs cannot be asserted at the end of a smaller script."
        _end(self._report, Status.PARTIAL, Reason.NOT_VERIFIED, f"{self._report.failure.message} {how}")
        return True, None

    def _follow(self, made: Made, follow_up: FollowUp, routes: Routes) -> None:
        """Verify, and find out what is worth knowing beside the repro."""
        self._journal.watch()
        result = follow_up.verify(made.result)
        patient = made.patient if result.found is made.result.found else routes.patient(result)
        self._journal.keep()
        suspects: list[Region] = []
        if self._options.diagnosis:
            follow_up.diagnose(patient, made.find_workaround)
            follow_up.read_code(result)
            suspects = follow_up.describe(result)
            follow_up.examine()
            follow_up.compare(result)
        follow_up.look_further(result, suspects)

    def _wants_witnesses(self, follow_up: FollowUp) -> bool:
        """Whether the compiler may be to blame for something, and a healthy script costs no more than a run or two of it."""
        report = self._report
        if report.status is Status.HEALTHY:
            return report.timings[Step.SURVEY] <= CHEAP_SECONDS
        if report.verification is not None and report.verification.holds:
            return follow_up.has_time(Step.WITNESS)
        return report.status is not Status.FAILED or report.reason is Reason.NOTHING_COMPILED

    def _hear(self, follow_up: FollowUp) -> None:
        """Hear the witnesses, and take up the graph that only one of them has found."""
        report = self._report
        self._journal.keep()
        testimonies = follow_up.hear_witnesses()
        if report.verification is not None and report.verification.holds:
            return
        for testimony in testimonies:
            if testimony.dump is not None and testimony.sees:
                folder = self._scratch.with_name(f"witness-{testimony.after}")
                if take_up(testimony, self._journal, folder=folder, minimize=self._minimize_dump):
                    report.witnesses = [heard.witness(fails=True) for heard in testimonies]
                    return

    def _minimize_dump(self, script: Path, sink: Sink) -> Report:
        changes = {"budget": int(self._journal.left), "witness": False, "args": [], "nproc": 1, "expect": "auto"}
        none = dict.fromkeys(("target", "steps", "hang_after"))
        return minimize(
            script,
            options=self._options.model_copy(update=changes | none),
            settings=self._settings,
            sink=sink,
            python=self._python,
            binds=self._binds,
            network=self._network,
        )

    def _start(self, executor: Executor) -> None:
        try:
            ready = executor.start()
        except ChildFailed as error:  # the script has not had a say yet
            raise WorkerTrouble(str(error)) from None
        if self._options.device == "cuda" and not ready.gpu:
            raise MissingTool("--device cuda: this torch is built without CUDA, or the sandbox has no /dev/nvidiactl.")
        self._report.environment = dict(ready.environment)

    # steps -------------------------------------------------------------------------------------------------------

    def _prepare(self, whole: ExitStack) -> Place:
        devices = devices_of(self._options, self._journal.note)
        jobs = devices.at_once(self._settings.trial_jobs, self._settings.gpu_jobs)
        self._settings = self._settings.model_copy(update={"trial_jobs": jobs})
        settings = self._settings
        sandbox = choose_sandbox(settings.sandbox, settings.trial_memory_bytes, devices, settings.job_memory_bytes)
        self._journal.guard = whole.enter_context(Warden(sandbox, self._disk)).watch
        whole.enter_context(freed(devices, self._journal.note))  # left when all children have ended
        if sandbox.notice:
            self._journal.note(sandbox.notice)
        place = open_place(
            self._script,
            sandbox=sandbox,
            scratch=self._scratch,
            python=self._python,
            binds=self._binds,
            network=self._network,
            memory_bytes=self._settings.trial_memory_bytes,
            environment=granted(self._options, self._settings, self._journal.note),
        )
        self._journal.redact = place.redacted
        script, note = self._script.resolve(), self._journal.note
        require_modules(script, place, self._binds, watch=self._journal.watch, on_note=note)
        if (bare := without_bytecode(place.python)) is not None:
            self._journal.note(
                "torch is installed here without bytecode: every process compiles what it imports of it, and all takes several times "
                f"as long. Mend it once: {place.python} -m compileall -q {bare}"
            )
        return place

    def _tell_of_memory(self, executor: Executor) -> None:
        if executor.ran_out:
            self._journal.note(
                f"{counted(executor.ran_out, 'trial')} ran out of GPU memory with no other beside: what the script itself holds is missing "
                "there. They count for nothing, neither for the failure nor against it."
            )

    def _surveys(self, executor: Executor) -> Surveys:
        return Surveys(
            executor,
            self._script.resolve(),
            args=self._options.args,
            nproc=self._options.nproc,
            steps=self._options.steps,
            hang_after=self._options.hang_after or HANG_AFTER,
            budget=self._options.budget,
            values=self._options.expect in ("auto", "accuracy"),
        )

    def _plain_runs(self, place: Place) -> PlainRuns:
        return PlainRuns(
            place,
            self._script.resolve(),
            self._options.args,
            nproc=self._options.nproc,
            left=lambda: self._journal.left,
            watch=self._journal.watch_owner,
            on_note=self._journal.note,
        )

    def _against(self, plain: PlainRuns, found: Settled, routes: Routes) -> Settled:
        """A verdict in the light of what the script does untouched."""
        try:
            return plain.against(found)
        finally:
            self._report.attempts = [*routes.tried, *plain.attempts]

    def _routes(self, executor: Executor, triage: Triage, beside: ThreadPoolExecutor) -> Routes:
        jobs = self._settings.trial_jobs
        return Routes(executor, triage, self._journal, self._options, self._script, jobs, beside, self._exact)

    def _triage(self, surveys: Surveys, plain: PlainRuns) -> Triage:
        repeat_seconds = max(REPEAT_SECONDS, self._options.budget / 10)
        return Triage(surveys, on_note=self._journal.note, on_healthy=plain.begin, repeat_seconds=repeat_seconds)

    def _conclude(self, found: Settled, follow_up: FollowUp) -> None:
        """The verdict where there is nothing to reduce."""
        self._settle(found)
        self._journal.decide()
        if found.status is Status.HEALTHY and self._options.diagnosis:
            follow_up.examine()

    def _settle(self, found: Settled) -> None:
        report = self._report
        report.status, report.reason, report.summary = found.status, found.reason, found.summary
        report.checked = checked_of(found.checked, self._exact)
        for note in found.notes:
            self._journal.note(note)
        if found.status is not Status.PARTIAL:
            report.failure = None  # announced, and taken back
        error = found.exception
        if error is not None and found.kind is None and found.status is not Status.HEALTHY:
            report.error = ScriptError(
                exception_type=error.root_type,
                message=error.root_message[:2000],
                traceback=self._journal.stack(found.stack),
                source=Source.of(error.source, error.library),
            )
        if found.kind is not None:
            report.failure = Failure(
                kind=found.kind,
                exception_type=error.root_type if error else None,
                message=error.root_message[:2000] if error else found.summary,
                traceback=self._journal.stack(found.stack),
                signature=exception_signature(found.kind, error).text,
                layout_only=found.layout_only,
                reproducibility=Reproducibility(failed=found.failed, runs=found.runs),
            )
