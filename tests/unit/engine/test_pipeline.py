"""The steps of a job where one of them comes to no end: what was known before it still holds."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
import sample_reports

from minimizer.engine.between import exact_runs
from minimizer.engine.between.exact_runs import Found
from minimizer.engine.between.search import BetweenGraphs
from minimizer.engine.child.bounded import parse
from minimizer.engine.child.outcome import Verdict
from minimizer.engine.draft import Result
from minimizer.engine.emit import Repro
from minimizer.engine.follow_up import FollowUp
from minimizer.engine.graph_search import Unreduced
from minimizer.engine.journal import Journal
from minimizer.engine.oracle.oracle import verdict_signature
from minimizer.engine.pipeline import _end, _Job, minimize
from minimizer.engine.program.model import Program
from minimizer.engine.routes import Made, Routes
from minimizer.engine.survey.cases import Case, Settled
from minimizer.errors import BudgetExceeded, Cancelled, ChildFailed, DiskExceeded, MemoryExceeded
from minimizer.options import Options
from minimizer.report.model import Failure, Reduction, Report, Verification
from minimizer.settings import Settings
from minimizer.sink import FolderSink
from minimizer.vocabulary import Kind, Reason, Stage, Status, Step


@pytest.fixture
def job(tmp_path: Path) -> _Job:
    (tmp_path / "a.py").write_text("import torch\n")
    journal = Journal(FolderSink(tmp_path / "out"), Report(), budget=600)
    scratch = cast(Any, SimpleNamespace(path=tmp_path))
    return _Job(tmp_path / "a.py", Options(), Settings(), journal, scratch, Path("python"), [], False)


def follow_up_of(job: _Job) -> FollowUp:
    none = cast(Any, None)
    return FollowUp(job._script, none, none, job._journal, job._options, job._settings)


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

    def run(job: _Job) -> None:
        with ThreadPoolExecutor(1) as beside:
            job._made(unfinished, unfinished, unfinished, job._routes(unfinished, unfinished, beside))

    monkeypatch.setattr(_Job, "run", run)
    (tmp_path / "a.py").write_text("import torch\n")
    sink = FolderSink(tmp_path / "out")
    report = minimize(tmp_path / "a.py", options=Options(budget=10), settings=Settings(), sink=sink)
    assert report.summary == summary


@pytest.mark.parametrize("status", [Status.MINIMIZED, Status.HEALTHY, Status.PARTIAL])
def test_a_verdict_outlives_what_comes_after_it(status: Status) -> None:
    report = Report(status=status, summary="So it is.")
    _end(report, Status.PARTIAL, Reason.BUDGET, "Stopped.")
    assert (report.status, report.reason, report.summary) == (status, None, "So it is.")


def test_what_was_announced_and_turns_out_to_be_chance_is_taken_back(job: _Job) -> None:
    job._report.failure = Failure(kind=Kind.WRONG_OUTPUT)
    job._settle(Settled(Status.FAILED, Reason.NONDETERMINISTIC, "Eager differs from eager."))
    assert job._report.failure is None


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
    def end(job: _Job) -> None:
        job._report.status, job._report.reason = status, reason

    monkeypatch.setattr(_Job, "run", end)
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
    def end(job: _Job) -> None:
        job._journal.show("repro.py", b"# new\n")
        job._journal.show("repro-2.py", b"# new, without data\n")
        job._report.status = Status.MINIMIZED

    monkeypatch.setattr(_Job, "run", end)
    script, out = tmp_path / "a.py", tmp_path / "out"
    script.write_text("import torch\n")
    for name in ("repro.py", "repro-2.py", "repro-2.zip", "repro-3.py"):
        FolderSink(out).artifact(name, b"# old\n")
    minimize(script, options=Options(), settings=Settings(), sink=FolderSink(out))
    assert sorted(path.name for path in out.glob("repro*")) == ["repro-2.py", "repro.py"]
    assert "new" in (out / "repro.py").read_text()


def test_behind_verify_the_steps_are_taken_in_their_order(
    job: _Job, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each with a time of its own, whatever comes of it."""
    seen: list[Step] = []
    step = Journal.step
    monkeypatch.setattr(Journal, "step", lambda self, which: (seen.append(which), step(self, which))[1])
    holds = Verification(runs=3, failed_same=3, clean_process=True, passes_with_compiler_off=True)

    def over(*_: object, **__: object) -> None:
        raise BudgetExceeded("over")

    for name in ("diagnose", "generated_code", "describe", "examine", "compare", "write_further"):
        monkeypatch.setattr(f"minimizer.engine.follow_up.{name}", over)
    monkeypatch.setattr(FollowUp, "_verified", lambda self, result: (*verified(self, holds), result))
    job._settings = job._settings.model_copy(update={"toolchains": "other=/usr/bin/python3"})
    job._report.failure = Failure(kind=Kind.WRONG_OUTPUT, stage=Stage.INDUCTOR)
    job._report.reduction = Reduction(one_minimal=True)
    found = Result(cast(Any, None), found=cast(Any, SimpleNamespace(program=None, oracle=None)))
    job._follow(Made(found, cast(Any, None), over), follow_up_of(job), cast(Any, None))
    assert seen == [Step.VERIFY, Step.DIAGNOSE, Step.CODE, Step.LAYERS, Step.HEALTH, Step.COMPARE, Step.FURTHER]
    assert list(Step)[list(Step).index(Step.VERIFY) :] == [*seen, Step.WITNESS]
    assert [name for name in job._report.timings if name != "total"] == seen


def verified(follow_up: FollowUp, verification: Verification) -> tuple[Verification, list[str]]:
    """A step that says so."""
    with follow_up.journal.step(Step.VERIFY):
        follow_up.report.verification = verification
    return verification, []


def test_the_issue_is_written_beside_the_report_and_goes_where_nobody_should_file_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def end(job: _Job) -> None:
        found = sample_reports.value()
        for name in ("status", "failure", "verification"):
            setattr(job._report, name, getattr(found, name))
        job._journal.repro = sample_reports.REPRO

    script, out = tmp_path / "a.py", tmp_path / "out"
    script.write_text("import torch\n")
    for stays in (True, False):
        monkeypatch.setattr(
            _Job, "run", end if stays else lambda job: _end(job._report, Status.HEALTHY, Reason.BUDGET, "")
        )
        minimize(script, options=Options(), settings=Settings(), sink=FolderSink(out))
        assert (out / "issue.md").exists() == stays


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


def ended_by(job: _Job, monkeypatch: pytest.MonkeyPatch, plain: Settled, end: Exception) -> tuple[Report, Layouts]:
    """The report of a job whose search for a layout ends so, and whose plain runs come to this verdict."""
    layouts = Layouts()

    def give_up(routes: Routes, case: Case) -> None:
        routes._announce(case)
        raise end

    monkeypatch.setattr(job, "_against", lambda *_: plain)
    monkeypatch.setattr(Routes, "by_graph", give_up)
    none = cast(Any, None)
    with ThreadPoolExecutor(1) as beside:
        job._made(none, none, none, job._routes(cast(Any, Unfinished(Cancelled())), cast(Any, layouts), beside))
    return job._report, layouts


@pytest.mark.parametrize("end", [Unreduced(WELL), ChildFailed("gone")])
def test_another_memory_layout_without_a_repro_is_partial(
    job: _Job, monkeypatch: pytest.MonkeyPatch, end: Exception
) -> None:
    report, _ = ended_by(job, monkeypatch, WELL, end)
    assert (report.status, report.reason) == (Status.PARTIAL, Reason.NOT_VERIFIED)
    assert report.failure is not None
    assert (report.failure.kind, report.failure.layout_only) == (Kind.WRONG_METADATA, True)
    assert report.summary.startswith("Values equal, memory layout differs")


def test_another_memory_layout_hides_nothing_that_plain_runs_show(job: _Job, monkeypatch: pytest.MonkeyPatch) -> None:
    raised = Settled(Status.PARTIAL, Reason.UNEXPLAINED, "It raises.", kind=Kind.RUNTIME_ERROR)
    report, layouts = ended_by(job, monkeypatch, raised, Unreduced(WELL))
    assert layouts.against is raised
    assert (report.reason, report.failure and report.failure.layout_only) == (Reason.UNEXPLAINED, False)


@pytest.mark.parametrize(
    ("found", "repro", "is_between", "status"),
    [(None, None, False, Status.RUNNING), (Found, None, True, Status.PARTIAL), (Found, Repro, True, Status.RUNNING)],
)
def test_a_fault_between_graphs_without_a_repro_is_partial(
    job: _Job, monkeypatch: pytest.MonkeyPatch, found: Any, repro: Any, is_between: bool, status: Status
) -> None:
    job._report.failure = Failure(kind=Kind.WRONG_OUTPUT, message="It differs.", mechanism="lost_mutation")
    monkeypatch.setattr(BetweenGraphs, "compare", lambda self: exact_runs.Answer(found))
    monkeypatch.setattr(BetweenGraphs, "repro", lambda self, found: repro)
    asked: list[Any] = []
    monkeypatch.setattr(BetweenGraphs, "look_for_workaround", lambda self, found: asked.append(found))
    seen, result = job._between_graphs(cast(Any, None), follow_up_of(job))
    assert bool(asked) == (is_between and repro is None), (
        "with a repro, a workaround is looked for once that is verified"
    )
    assert (seen, result is not None, job._report.status) == (is_between, repro is not None, status)
