"""The steps of a job where one of them comes to no end: what was known before it still holds."""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
import sample_reports
from healthy_verdict import report_of, says_open

from minimizer.engine import fold, pipeline
from minimizer.engine.after.conclude import end, settle
from minimizer.engine.after.follow_up import FollowUp
from minimizer.engine.between import exact_runs
from minimizer.engine.between.answer import Answer, Found
from minimizer.engine.between.wrapper_effect import Effect, Side
from minimizer.engine.budget.clock import Clock
from minimizer.engine.child.bounded import parse
from minimizer.engine.child.exact_log import Glance
from minimizer.engine.child.outcome import Verdict
from minimizer.engine.child.scratch_disk import Scratch
from minimizer.engine.emit import Repro
from minimizer.engine.job import Job, Parts, prepared
from minimizer.engine.journal import Journal
from minimizer.engine.levels import exact as exact_level
from minimizer.engine.levels.checkpoint import NAME as CHECKPOINT
from minimizer.engine.levels.draft import Result
from minimizer.engine.levels.exact import BetweenGraphs
from minimizer.engine.levels.window import Unreduced
from minimizer.engine.oracle.signature import verdict_signature
from minimizer.engine.pipeline import minimize
from minimizer.engine.program.model import Program
from minimizer.engine.routes import NO_ANSWER, Made, Routes
from minimizer.engine.survey.cases import Case, Settled
from minimizer.engine.user_script.syntax import UNPARSED
from minimizer.errors import BudgetExceeded, Cancelled, ChildFailed, DiskExceeded, MemoryExceeded
from minimizer.options import Options
from minimizer.report.excused import excused
from minimizer.report.model import Failure, Reduction, Report, Verification
from minimizer.settings import Settings
from minimizer.sink import FolderSink
from minimizer.vocabulary import Kind, Reason, Stage, Status, Step

NONE = cast(Any, None)


@pytest.fixture
def job(tmp_path: Path) -> Job:
    (tmp_path / "a.py").write_text("import torch\n")
    journal = Journal(FolderSink(tmp_path / "out"), Report(), Clock(600))
    return Job(tmp_path / "a.py", Options(), Settings(), journal, Path("python"))


def parts_of(job: Job, **others: Any) -> Parts:
    """What a job works with: an exact comparison of its script, what follows a repro, and ``others``."""
    between = BetweenGraphs(NONE, job.script, [], job.journal, jobs=1, timeout=60)
    follow_up = FollowUp(job.script, NONE, NONE, job.journal, job.options, job.settings)
    parts = Parts(job, NONE, between, NONE, NONE, NONE, follow_up, NONE)
    return replace(parts, **others)


class Unfinished:
    """Runs of a script, the judge of a trial, and a triage that all come to no end."""

    doing = "compiling graph 3"

    def __init__(self, error: Exception) -> None:
        self._error = error

    def run(self) -> None:
        raise self._error

    def judge(self, *_: object, **__: object) -> None:
        """No answer."""


@pytest.mark.parametrize(
    ("error", "summary"),
    [
        (
            BudgetExceeded("the budget of 10 seconds is used up"),
            "Stopped while running the script: the budget of 10 seconds is used up, compiling graph 3. No failure had been found by "
            "then. --budget 20 may do: an estimate, by how long this step has taken.",
        ),
        (DiskExceeded("the disk is full"), "Stopped while running the script: the disk is full. No failure had been found by then."),
        (MemoryExceeded("much memory"), "Stopped while running the script: much memory. No failure had been found by then."),
        (Cancelled("enough"), "Stopped while running the script: cancelled. No failure had been found by then."),
    ],
    ids=["time", "disk", "memory", "owner"],
)  # fmt: skip
def test_a_job_that_is_ended_early_says_what_it_was_doing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception, summary: str
) -> None:
    """And does not speak of a best result where there is none."""
    unfinished = cast(Any, Unfinished(error))

    def run(job: Job, disk: object) -> None:
        with ThreadPoolExecutor(1) as beside:
            parts = parts_of(job, executor=unfinished, surveys=unfinished, triage=unfinished, beside=beside)
            pipeline.reduce_graphs(parts, NO_ANSWER, parts.routes(NO_ANSWER))

    monkeypatch.setattr(pipeline, "run", run)
    (tmp_path / "a.py").write_text("import torch\n")
    sink = FolderSink(tmp_path / "out")
    report = minimize(tmp_path / "a.py", options=Options(budget=10), settings=Settings(), sink=sink)
    assert report.summary == summary


@pytest.mark.parametrize("status", [Status.MINIMIZED, Status.HEALTHY, Status.PARTIAL])
def test_a_verdict_outlives_what_comes_after_it(tmp_path: Path, status: Status) -> None:
    report = Report(status=status, summary="So it is.")
    end(Journal(FolderSink(tmp_path), report, Clock(60)), Status.PARTIAL, Reason.BUDGET, "Stopped.")
    assert (report.status, report.reason, report.summary) == (status, None, "So it is.")


def test_what_was_announced_and_turns_out_to_be_chance_is_taken_back(job: Job) -> None:
    job.journal.fault = replace(job.journal.fault, failure=Failure(kind=Kind.WRONG_OUTPUT))
    settle(Settled(Status.FAILED, Reason.NONDETERMINISTIC, "Eager differs from eager."), NO_ANSWER, job.journal)
    assert job.report.failure is None


@pytest.mark.parametrize(
    ("status", "reason", "stays"),
    [
        (Status.HEALTHY, None, False),
        (Status.FAILED, Reason.FAILS_IN_EAGER, False),
        (Status.PARTIAL, Reason.BUDGET, True),
        (Status.CANCELLED, Reason.INTERRUPTED, True),
        (Status.FAILED, Reason.INTERNAL_ERROR, True),
    ],
)
def test_a_repro_of_an_earlier_run_stays_only_where_this_one_may_go_on_from_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, status: Status, reason: Reason | None, stays: bool
) -> None:
    def ended(job: Job, disk: object) -> None:
        job.journal.fault = replace(job.journal.fault, status=status, reason=reason)

    monkeypatch.setattr(pipeline, "run", ended)
    script, out = tmp_path / "a.py", tmp_path / "out"
    script.write_text("import torch\n")
    FolderSink(out).artifact("repro.py", b"raise SystemExit(1)\n")
    (out / "repro-2.py").write_text("# of the user's own\n")
    minimize(script, options=Options(), settings=Settings(), sink=FolderSink(out))
    assert (out / "repro.py").exists() == stays
    assert (out / "repro-2.py").exists()


def test_further_repros_of_an_earlier_run_do_not_stay_beside_a_new_repro(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def ended(job: Job, disk: object) -> None:
        job.journal.show("repro.py", b"# new\n")
        job.journal.show("repro-2.py", b"# new, without data\n")
        job.journal.fault = replace(job.journal.fault, status=Status.MINIMIZED)

    monkeypatch.setattr(pipeline, "run", ended)
    script, out = tmp_path / "a.py", tmp_path / "out"
    script.write_text("import torch\n")
    for name in ("repro.py", "repro-2.py", "repro-2.zip", "repro-3.py"):
        FolderSink(out).artifact(name, b"# old\n")
    minimize(script, options=Options(), settings=Settings(), sink=FolderSink(out))
    assert sorted(path.name for path in out.glob("repro*")) == ["repro-2.py", "repro.py"]
    assert "new" in (out / "repro.py").read_text()


def test_behind_verify_the_steps_are_taken_in_their_order(
    job: Job, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each with a time of its own, whatever comes of it."""
    seen: list[Step] = []
    step = Journal.step
    monkeypatch.setattr(Journal, "step", lambda self, which: (seen.append(which), step(self, which))[1])
    holds = Verification(runs=3, failed_same=3, clean_process=True, passes_with_compiler_off=True)

    def over(*_: object, **__: object) -> None:
        raise BudgetExceeded("over")

    for name in ("diagnose", "generated_code", "describe", "examine", "compare", "write_further"):
        monkeypatch.setattr(f"minimizer.engine.after.follow_up.{name}", over)
    monkeypatch.setattr(FollowUp, "_verified", lambda self, result: (*verified(self, holds), result))
    job = replace(job, settings=job.settings.model_copy(update={"toolchains": "other=/usr/bin/python3"}))
    job.journal.fault = replace(job.journal.fault, failure=Failure(kind=Kind.WRONG_OUTPUT, stage=Stage.INDUCTOR))
    job.journal.fault = replace(job.journal.fault, reduction=Reduction(one_minimal=True))
    found = Result(cast(Any, None), found=cast(Any, SimpleNamespace(program=None, oracle=None)))
    pipeline.follow(Made(found, NONE, over), parts_of(job), NONE)
    assert seen == [Step.VERIFY, Step.DIAGNOSE, Step.CODE, Step.LAYERS, Step.HEALTH, Step.COMPARE, Step.FURTHER]
    assert list(Step)[list(Step).index(Step.VERIFY) :] == [*seen, Step.WITNESS]
    assert [name for name in job.report.timings if name != "total"] == seen


def verified(follow_up: FollowUp, verification: Verification) -> tuple[Verification, list[str]]:
    """A step that says so."""
    with follow_up.journal.step(Step.VERIFY):
        follow_up.journal.fault = replace(follow_up.journal.fault, verification=verification)
    return verification, []


def test_the_issue_is_written_beside_the_report_and_goes_where_nobody_should_file_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def ended(job: Job, disk: object) -> None:
        found = sample_reports.value()
        job.journal.fault = fold.fault_of(found)
        job.journal.repro = sample_reports.REPRO

    script, out = tmp_path / "a.py", tmp_path / "out"
    script.write_text("import torch\n")
    for stays in (True, False):
        healthy = lambda job, disk: end(job.journal, Status.HEALTHY, Reason.BUDGET, "")  # noqa: E731
        monkeypatch.setattr(pipeline, "run", ended if stays else healthy)
        minimize(script, options=Options(), settings=Settings(), sink=FolderSink(out))
        assert (out / "issue.md").exists() == stays


@pytest.mark.parametrize(
    ("is_minimal", "status", "reason", "stays"),
    [
        (True, Status.MINIMIZED, None, False),
        (False, Status.MINIMIZED, None, True),
        (False, Status.PARTIAL, Reason.BUDGET, True),
        (False, Status.PARTIAL, Reason.NOT_VERIFIED, False),
    ],
)
def test_a_larger_budget_goes_on_from_where_the_time_ended(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    is_minimal: bool,
    status: Status,
    reason: Reason | None,
    stays: bool,
) -> None:
    def ended(job: Job, disk: object) -> None:
        job.journal.fault = replace(job.journal.fault, status=status, reason=reason)
        job.journal.fault = replace(job.journal.fault, reduction=Reduction(one_minimal=is_minimal))
        job.journal.sink.artifact(CHECKPOINT, b"{}")

    script, out = tmp_path / "a.py", tmp_path / "out"
    script.write_text("import torch\n")
    monkeypatch.setattr(pipeline, "run", ended)
    minimize(script, options=Options(), settings=Settings(), sink=FolderSink(out))
    assert (FolderSink(out).earlier(CHECKPOINT) is not None) == stays


STRIDES = {
    "fault": True,
    "kind": "wrong_metadata",
    "differences": [{"where": "output", "kind": "wrong_metadata", "what": "stride"}],
}
WELL = Settled(Status.HEALTHY, None, "Healthy.")


def of_layout() -> Case:
    verdict = parse(Verdict, STRIDES)
    return Case(cast(Any, None), Program((), (), ()), verdict_signature(verdict), "differs", verdict=verdict)


class Layouts:
    """A triage of a script of which nothing is wrong but a memory layout; keeps the verdict that it is asked against."""

    against: Settled | None = None

    def run(self) -> Settled:
        return WELL

    def by_layout(self, otherwise: Settled) -> Case | Settled:
        self.against = otherwise
        return of_layout() if otherwise.kind is None else otherwise


def ended_by(job: Job, monkeypatch: pytest.MonkeyPatch, plain: Settled, end: Exception) -> tuple[Report, Layouts]:
    """The report of a job whose search for a layout ends so, and whose plain runs come to this verdict."""
    layouts = Layouts()

    def give_up(routes: Routes, case: Case) -> None:
        routes._announce(case)
        raise end

    monkeypatch.setattr(pipeline, "against_plain_runs", lambda *_: plain)
    monkeypatch.setattr(Routes, "by_graph", give_up)
    with ThreadPoolExecutor(1) as beside:
        unfinished = cast(Any, Unfinished(Cancelled()))
        parts = parts_of(job, executor=unfinished, triage=cast(Any, layouts), beside=beside)
        found = pipeline.reduce_graphs(parts, NO_ANSWER, parts.routes(NO_ANSWER))
    assert isinstance(found, Settled)
    pipeline.conclude(found, NO_ANSWER, parts)
    return job.report, layouts


@pytest.mark.parametrize("end", [Unreduced(WELL), ChildFailed("gone")])
def test_another_memory_layout_without_a_repro_is_partial(
    job: Job, monkeypatch: pytest.MonkeyPatch, end: Exception
) -> None:
    report, _ = ended_by(job, monkeypatch, WELL, end)
    assert (report.status, report.reason) == (Status.PARTIAL, Reason.NOT_VERIFIED)
    assert report.failure is not None
    assert (report.failure.kind, report.failure.layout_only) == (Kind.WRONG_METADATA, True)
    assert report.summary.startswith("Values equal, memory layout differs")


def test_another_memory_layout_hides_nothing_that_plain_runs_show(job: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    raised = Settled(Status.PARTIAL, Reason.UNEXPLAINED, "It raises.", kind=Kind.RUNTIME_ERROR)
    report, layouts = ended_by(job, monkeypatch, raised, Unreduced(WELL))
    assert layouts.against is raised
    assert (report.reason, report.failure and report.failure.layout_only) == (Reason.UNEXPLAINED, False)


@pytest.mark.parametrize(
    "plain", [WELL, Settled(Status.PARTIAL, Reason.UNEXPLAINED, "It raises.", kind=Kind.RUNTIME_ERROR)]
)
def test_what_plain_runs_show_comes_before_an_effect_of_the_wrapper(
    job: Job, monkeypatch: pytest.MonkeyPatch, plain: Settled
) -> None:
    """And what they excuse, or do not know, stays in the verdict."""
    told = excused("plain_runs_unknown", "it took too long")
    effect = replace(WELL, status=Status.FAILED, reason=Reason.WRAPPER_EFFECT, summary="Line 1.")
    monkeypatch.setattr(pipeline, "past_wrappers", lambda *_: effect)
    report, layouts = ended_by(job, monkeypatch, replace(plain, excused=(told,)), Cancelled())
    assert report.reason is (plain.reason or Reason.WRAPPER_EFFECT)
    assert told in report.checked.excused
    assert (layouts.against is None) == (plain is WELL)


@pytest.mark.parametrize("repro", [None, Repro])
def test_a_fault_between_graphs_without_a_repro_is_partial(
    job: Job, monkeypatch: pytest.MonkeyPatch, repro: Any
) -> None:
    """And has its workaround at once; with a repro, one is looked for when that is verified."""
    job.journal.fault = replace(
        job.journal.fault, failure=Failure(kind=Kind.WRONG_OUTPUT, message="It differs.", mechanism="lost_mutation")
    )
    monkeypatch.setattr(BetweenGraphs, "repro", lambda self, found: repro)
    asked: list[Any] = []
    monkeypatch.setattr(BetweenGraphs, "workaround", lambda self, found: asked.append(found))
    found = pipeline.reduce_between(parts_of(job), Answer(cast(Any, Found)))
    if repro is not None:
        assert (isinstance(found, Made), asked) == (True, [])
        return
    assert asked == [Found]
    assert isinstance(found, Settled)
    pipeline.conclude(found, NO_ANSWER, parts_of(job))
    assert (job.report.status, job.report.reason) == (Status.PARTIAL, Reason.NOT_VERIFIED)
    assert job.report.failure is not None, "what was announced stays"


def test_a_script_whose_own_check_fails_is_reduced_by_that_where_nothing_else_can_be_asserted(
    job: Job, monkeypatch: pytest.MonkeyPatch
) -> None:
    def repro(between: BetweenGraphs, found: Any) -> None:
        job.journal.fault = replace(
            job.journal.fault, failure=Failure(kind=Kind.WRONG_OUTPUT, message="It differs.", mechanism="lost_mutation")
        )

    monkeypatch.setattr(BetweenGraphs, "repro", repro)
    assert pipeline.reduce_between(parts_of(job), Answer(cast(Any, Found), failed_check="AssertionError")) is None
    assert job.report.failure is None


CHECKED = "assert f(x) == g(x)\n"
ENDED = Answer(aside="a run of the script ended early (runtime_error)", failed_check="AssertionError", runs=2)


@pytest.mark.parametrize("answer", [Answer(cast(Any, Found), runs=9), Answer(runs=4)])
def test_a_failing_check_of_the_script_is_taken_away_to_see_what_it_sees(
    job: Job, monkeypatch: pytest.MonkeyPatch, answer: Answer
) -> None:
    job.script.write_text(CHECKED)
    asked: list[str] = []

    def compare(exact: Any, text: str) -> Answer:
        asked.append(text)
        return ENDED if text == CHECKED else answer

    monkeypatch.setattr(exact_runs.ExactRuns, "compare", compare)
    seen = BetweenGraphs(NONE, job.script, [], job.journal, jobs=1, timeout=60).compare()
    assert asked == [CHECKED, "(f(x) == g(x))\n"]
    assert seen == replace(answer, failed_check="AssertionError", aside=seen.aside)
    assert seen.aside == ("" if answer.found else ENDED.aside), "without a finding, the script was not compared"


@pytest.mark.needs_excuse("exact_not_asked")
@pytest.mark.fault_behind("exact_not_asked")
@pytest.mark.parametrize("options", [Options(nproc=2), Options(expect="crash")])
def test_exact_runs_that_are_not_asked_for_are_told_before_all_else(job: Job, options: Options) -> None:
    answer = pipeline.compare_exactly(parts_of(replace(job, options=options)))
    assert answer.runs == 0 and says_open(report_of(exact=answer), "exact_not_asked")


def test_exact_runs_leave_time_for_the_graphs(job: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    """And what they could not look at is told."""
    shares: list[float] = []

    def compare(between: BetweenGraphs) -> Answer:
        shares.append(job.journal.clock.left)
        raise BudgetExceeded("the budget of 360 seconds is used up")

    monkeypatch.setattr(BetweenGraphs, "compare", compare)
    answer = pipeline.compare_exactly(parts_of(job))
    assert answer.found is None
    assert shares == [pytest.approx(360, abs=5)]
    assert job.journal.clock.left == pytest.approx(600, abs=5)
    assert answer.not_compared == (
        "what lies between graphs: the exact runs came to no answer in their share of the time",
    )


@pytest.mark.needs_excuse("exact_no_answer")
def test_exact_runs_whose_child_goes_away_are_told(job: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    def compare(between: BetweenGraphs) -> Answer:
        raise ChildFailed("the child is gone")

    monkeypatch.setattr(BetweenGraphs, "compare", compare)
    answer = pipeline.compare_exactly(parts_of(job))
    assert answer.found is None
    assert answer.aside and answer.not_compared == ("what lies between graphs: the child is gone",)
    assert says_open(report_of(exact=answer), "exact_no_answer")


def healthy() -> Settled:
    return Settled(Status.HEALTHY, None, "No difference in 3 calls.")


def test_a_healthy_script_that_looks_at_the_wrapper_is_told_so(job: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    effect = Effect("net.steps", Side("5", "0"), Glance(key="k", sort="is_compiling", line=1))
    monkeypatch.setattr(exact_level, "wrapper_effect", lambda runs, text: effect)
    found = pipeline.past_wrappers(healthy(), Answer(looks=6), parts_of(job))
    assert (found.status, found.reason) == (Status.FAILED, Reason.WRAPPER_EFFECT)
    assert "net.steps is 0, and 5 without torch.compile" in found.summary


@pytest.mark.parametrize(
    ("found", "answer"),
    [
        (healthy(), NO_ANSWER),
        (Settled(Status.FAILED, Reason.FAILS_IN_EAGER, "It fails."), Answer(looks=6)),
    ],
)
def test_wrappers_are_asked_for_only_where_all_else_is_healthy_and_was_compared(
    job: Job, monkeypatch: pytest.MonkeyPatch, found: Settled, answer: Answer
) -> None:
    monkeypatch.setattr(exact_level, "wrapper_effect", lambda runs, text: pytest.fail("asked"))
    assert pipeline.past_wrappers(found, answer, parts_of(job)) is found


@pytest.mark.parametrize("error", [ChildFailed("gone"), BudgetExceeded("the time is over")])
def test_a_healthy_verdict_outlives_runs_without_wrappers_that_come_to_nothing(
    job: Job, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    def fail(runs: object, text: str) -> None:
        raise error

    monkeypatch.setattr(exact_level, "wrapper_effect", fail)
    assert pipeline.past_wrappers(healthy(), Answer(looks=6), parts_of(job)).status is Status.HEALTHY


def test_exact_runs_that_use_up_the_disk_end_the_job(job: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    def compare(between: BetweenGraphs) -> Answer:
        raise DiskExceeded("the disk is full")

    monkeypatch.setattr(BetweenGraphs, "compare", compare)
    with pytest.raises(DiskExceeded):
        pipeline.compare_exactly(parts_of(job))


@pytest.mark.parametrize("mechanism", ["lost_mutation", None])
def test_a_child_that_goes_away_takes_no_confirmed_failure_with_it(
    job: Job, monkeypatch: pytest.MonkeyPatch, mechanism: Any
) -> None:
    """The graphs are looked at all the same; a workaround needs to know how the failure came about."""

    def repro(between: BetweenGraphs, found: Any) -> None:
        job.journal.fault = replace(
            job.journal.fault, failure=Failure(kind=Kind.WRONG_OUTPUT, message="It differs.", mechanism=mechanism)
        )
        raise ChildFailed("the child is gone")

    monkeypatch.setattr(BetweenGraphs, "repro", repro)
    if mechanism is not None:
        monkeypatch.setattr(BetweenGraphs, "workaround", lambda self, found: None)
    found = pipeline.reduce_between(parts_of(job), Answer(cast(Any, Found)))
    assert isinstance(found, Settled)
    assert (found.status, found.reason) == (Status.PARTIAL, Reason.NOT_VERIFIED)
    assert found.summary.startswith("It differs.")


def test_a_script_of_a_newer_python_is_left_in_one_piece_and_that_is_said(job: Job, tmp_path: Path) -> None:
    """The child's Python runs it; ours, which takes scripts apart, cannot even parse it."""
    job.script.write_text("import torch\nx = = 1\n")
    job = replace(job, python=Path(sys.executable))
    with Scratch() as disk, prepared(job, disk):
        pass
    (note,) = [note for note in job.report.notes if "one piece" in note]
    assert UNPARSED in note and "(line 2: invalid syntax)" in note
    answer = BetweenGraphs(NONE, job.script, [], job.journal, jobs=1, timeout=60).compare()
    assert answer.found is None
    assert answer.not_compared == (f"what lies between graphs: {UNPARSED}",)


def test_a_script_that_our_python_parses_is_not_said_to_be_newer(job: Job) -> None:
    job = replace(job, python=Path(sys.executable))
    with Scratch() as disk, prepared(job, disk):
        pass
    assert not [note for note in job.report.notes if "one piece" in note]
