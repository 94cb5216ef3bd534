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
from sample_job import NONE, job_in, parts_of, routes_of

from minimizer.engine import fold, pipeline
from minimizer.engine.after.conclude import end, settle
from minimizer.engine.between import exact_runs
from minimizer.engine.between.answer import NO_ANSWER, Answer, Found
from minimizer.engine.budget.clock import Clock
from minimizer.engine.child.protocol import Ready
from minimizer.engine.child.scratch_disk import Scratch
from minimizer.engine.emit import Repro
from minimizer.engine.job import Job, _start, prepared
from minimizer.engine.journal import Journal
from minimizer.engine.levels.checkpoint import NAME as CHECKPOINT
from minimizer.engine.levels.draft import Draft
from minimizer.engine.levels.exact import BetweenGraphs
from minimizer.engine.pipeline import minimize
from minimizer.engine.routes import Routes
from minimizer.engine.survey.cases import Settled
from minimizer.engine.suspects import Graphs, Verified, verified
from minimizer.engine.user_script.syntax import UNPARSED
from minimizer.errors import BudgetExceeded, Cancelled, ChildFailed, DiskExceeded, MemoryExceeded, MissingTool
from minimizer.options import Options
from minimizer.report.model import Failure, Reduction, Report, Verification
from minimizer.settings import Settings
from minimizer.sink import Aside, FolderSink
from minimizer.vocabulary import Kind, Reason, Stage, Status, Step


@pytest.fixture
def job(tmp_path: Path) -> Job:
    return job_in(tmp_path)


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

    def run(job: Job, *_: object) -> None:
        with ThreadPoolExecutor(1) as beside:
            routes = routes_of(job, executor=unfinished, surveys=unfinished, triage=unfinished, beside=beside)
            pipeline.reach([Graphs()], routes)

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
    job.journal.record(replace(job.journal.fault, failure=Failure(kind=Kind.WRONG_OUTPUT)))
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
    def ended(job: Job, *_: object) -> None:
        job.journal.record(replace(job.journal.fault, status=status, reason=reason))

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
    def ended(job: Job, *_: object) -> None:
        job.journal.show("repro.py", b"# new\n")
        job.journal.show("repro-2.py", b"# new, without data\n")
        job.journal.record(replace(job.journal.fault, status=Status.MINIMIZED))

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
    monkeypatch.setattr("minimizer.engine.verify.clean_runs.verify", lambda *_, **__: holds)
    monkeypatch.setattr(BetweenGraphs, "workaround", over)
    job = replace(job, settings=job.settings.model_copy(update={"toolchains": "other=/usr/bin/python3"}))
    job.journal.record(replace(job.journal.fault, failure=Failure(kind=Kind.WRONG_OUTPUT, stage=Stage.INDUCTOR)))
    job.journal.record(replace(job.journal.fault, reduction=Reduction(one_minimal=True)))
    found = cast(Any, SimpleNamespace(program=None, oracle=None))
    parts = parts_of(job)
    place = cast(
        Any, SimpleNamespace(sandbox=None, python=None, packages=(), headers=None, private=lambda name: tmp_path)
    )
    surveys = cast(Any, SimpleNamespace(first=None, crowding=1.0))
    parts = replace(parts, follow_up=replace(parts.follow_up, place=place, surveys=surveys))
    repro = Repro(source="", lines=0, kind=Kind.WRONG_OUTPUT, evidence="")
    draft = Draft(repro, job.journal.fault, found=found, difference=cast(Any, "a difference"))
    end = verified(draft, Routes(parts))
    assert isinstance(end, Verified)
    pipeline.enrich(end.draft, parts)
    assert seen == [Step.VERIFY, Step.DIAGNOSE, Step.CODE, Step.LAYERS, Step.HEALTH, Step.COMPARE, Step.FURTHER]
    assert list(Step)[list(Step).index(Step.VERIFY) :] == [*seen, Step.WITNESS]
    assert [name for name in job.report.timings if name != "total"] == seen


def test_the_issue_is_written_beside_the_report_and_goes_where_nobody_should_file_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def ended(job: Job, *_: object) -> None:
        found = sample_reports.value()
        job.journal.record(fold.fault_of(found))
        job.journal.repro = sample_reports.REPRO

    script, out = tmp_path / "a.py", tmp_path / "out"
    script.write_text("import torch\n")
    for stays in (True, False):
        healthy = lambda job, *_: end(job.journal, Status.HEALTHY, Reason.BUDGET, "")  # noqa: E731
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
    def ended(job: Job, *_: object) -> None:
        job.journal.record(replace(job.journal.fault, status=status, reason=reason))
        job.journal.record(replace(job.journal.fault, reduction=Reduction(one_minimal=is_minimal)))
        job.journal.sink.artifact(CHECKPOINT, b"{}")

    script, out = tmp_path / "a.py", tmp_path / "out"
    script.write_text("import torch\n")
    monkeypatch.setattr(pipeline, "run", ended)
    minimize(script, options=Options(), settings=Settings(), sink=FolderSink(out))
    assert (FolderSink(out).earlier(CHECKPOINT) is not None) == stays


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


def test_exact_runs_that_use_up_the_disk_end_the_job(job: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    def compare(between: BetweenGraphs) -> Answer:
        raise DiskExceeded("the disk is full")

    monkeypatch.setattr(BetweenGraphs, "compare", compare)
    with pytest.raises(DiskExceeded):
        pipeline.compare_exactly(parts_of(job))


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


def test_what_a_torch_does_without_is_a_note(job: Job) -> None:
    ready = Ready(environment={"torch": "2.16"}, does_without=["torch 2.16 has no part, which saves time"])
    _start(cast(Any, SimpleNamespace(start=lambda: ready)), job)
    assert job.report.notes == ["Torch 2.16 has no part, which saves time."]


def test_a_torch_that_cannot_be_observed_ends_the_job_with_a_sentence_and_no_verdict(job: Job) -> None:
    def refuse(*_: object) -> None:
        _start(cast(Any, SimpleNamespace(start=lack)), job)

    def lack() -> Ready:
        raise MissingTool("This torch cannot be observed: torch 2.16 has no part, which tells all.")

    pipeline.conduct(job, refuse)
    assert (job.report.status, job.report.reason) == (Status.FAILED, Reason.NOT_RUNNABLE)
    assert job.report.summary == "This torch cannot be observed: torch 2.16 has no part, which tells all."


OF_MACHINE = {"device", "env", "toolchain", "diagnosis"}
ASKED: dict[str, Any] = {
    "budget": 500, "device": "cpu", "expect": "crash", "target": "relu", "steps": 3, "hang_after": 7, "args": ["--fast"],
    "env": ["HF_HOME"], "toolchain": "nightly", "diagnosis": False, "witness": True, "nproc": 2, "ready": "8000", "drive": "client",
}  # fmt: skip
"""Another value than by default of every option that is not replaced anyway."""


@pytest.mark.parametrize(
    ("error", "status"), [(None, Status.MINIMIZED), (ChildFailed("gone"), Status.FAILED), (Cancelled(), Status.CANCELLED)]
)  # fmt: skip
def test_a_dumped_graph_is_attempted_apart_from_the_job(
    job: Job, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception | None, status: Status
) -> None:
    """With the time that is left, on a disk of its own, and without what was asked of the user's script."""
    asked = list[Job]()

    def investigate(inner: Job, disk: Scratch, machine: object) -> None:
        asked.append(inner)
        assert disk.path.exists()
        inner.journal.show("repro.py", b"# of the graph")
        if error is not None:
            raise error
        inner.journal.record(replace(inner.journal.fault, status=Status.MINIMIZED))

    monkeypatch.setattr(pipeline, "investigate", investigate)
    assert ASKED.keys() == Options.model_fields.keys(), "an option was added: give it another value than by default"
    job = replace(job, options=Options.model_validate(ASKED))
    aside = Aside(job.journal.sink)
    with job.journal.clock.within(100):
        report = pipeline.attempt_dump(job, tmp_path / "witness.py", aside)
    (inner,) = asked
    assert (report.status, job.report.status) == (status, Status.RUNNING)
    default = Options()
    for name, value in inner.options:
        if name not in ("budget", "witness"):
            assert value == (ASKED[name] if name in OF_MACHINE else getattr(default, name)), name
    assert inner.options.witness is False
    assert inner.options.budget in (99, 100)
    assert aside.artifacts.keys() == {"repro.py", "run.log"}
    assert not (tmp_path / "out" / "repro.py").exists()
