"""The steps of a job where one of them comes to no end: what was known before it still holds."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from minimizer.engine.between import exact_runs
from minimizer.engine.between.exact_runs import Found
from minimizer.engine.between.search import BetweenGraphs
from minimizer.engine.child.protocol import Checked, Outcome, Verdict, parse
from minimizer.engine.emit import Repro
from minimizer.engine.graph_search import Unreduced
from minimizer.engine.journal import Journal
from minimizer.engine.localize.suspects import Answer
from minimizer.engine.oracle.oracle import Signature, signature_of, verdict_signature
from minimizer.engine.pipeline import _end, _Job, _unanswered, minimize
from minimizer.engine.program.arguments import Ref
from minimizer.engine.program.model import Input, Node, Program, TensorMeta
from minimizer.engine.program.regions import Region
from minimizer.engine.survey.cases import Case, Settled, unexamined
from minimizer.engine.survey.triage import Triage
from minimizer.errors import BudgetExceeded, Cancelled, ChildFailed, DiskExceeded
from minimizer.options import Options
from minimizer.report.model import Failure, Reduction, Report, Reproducibility
from minimizer.settings import Settings
from minimizer.sink import FolderSink
from minimizer.vocabulary import Kind, Reason, Stage, Status


class Kept:
    """A finished result."""

    def __init__(self) -> None:
        self.times = 0

    def keep(self, journal: Journal) -> None:
        self.times += 1


@pytest.fixture
def job(tmp_path: Path) -> _Job:
    (tmp_path / "a.py").write_text("import torch\n")
    journal = Journal(FolderSink(tmp_path / "out"), Report(), budget=600)
    return _Job(tmp_path / "a.py", Options(), Settings(), journal, tmp_path / "shared", Path("python"), [], False)


def wrong(*whats: str) -> Outcome:
    differences = [{"where": "output[0]", "kind": "wrong_output", "what": what} for what in whats]
    return parse(
        Outcome,
        {"outcome": "different", "verdict": {"fault": True, "kind": "wrong_output", "differences": differences}},
    )


@pytest.mark.parametrize(
    ("script", "window", "pinned"),
    [
        (["nan"], ["value", "nan"], True),
        (["nan"], ["value"], False),  # NaN comes from what is finite and wrong here
        (["value"], ["nan"], False),
    ],
)
def test_nan_stays_part_of_a_failure_that_it_is(
    job: _Job, monkeypatch: pytest.MonkeyPatch, script: list[str], window: list[str], pinned: bool
) -> None:
    signature = signature_of(wrong(*script))
    assert signature is not None
    case = replace(suspect(), signature=signature, otherwise=None)
    search = job._search(case, cast(Any, None))
    monkeypatch.setattr(search._oracle, "judge", lambda programs: [wrong(*window)])
    search._pin(case.program)
    assert search._oracle.shows(wrong("value")) is not pinned
    assert search._oracle.shows(wrong("value", "inf"))


def suspect() -> Case:
    """A call whose values differ behind a jump, of a script that is healthy if that is rounding."""
    x = Input("x", TensorMeta((2,), "torch.float32", (1,)), code="torch.ones(2)")
    program = Program((x,), (Node("y", ".argmax", (Ref("x"),)),), ("y",))
    healthy = Settled(Status.HEALTHY, None, "Healthy.")
    return Case(cast(Any, Holder()), program, Signature(Kind.WRONG_OUTPUT), "differs", otherwise=healthy)


class Holder:
    """The survey of a held call."""

    is_open = True

    def close(self) -> None:
        self.is_open = False


class Suspects:
    """A triage with some suspects left."""

    def __init__(self, *left: Case) -> None:
        self._left, self.otherwise = list(left), Settled(Status.HEALTHY, None, "Healthy.")
        self.surveys = self

    def rate(self, case: Case, seen: Reproducibility, enough: int) -> Reproducibility:
        return Reproducibility(failed=enough, runs=enough)

    def next_suspect(self) -> Case | None:
        return self._left.pop(0) if self._left else None

    def leave_open(self) -> None:
        self.otherwise = unexamined(self.otherwise)


@pytest.mark.parametrize("error", [BudgetExceeded("over"), ChildFailed("gone"), Cancelled("enough")])
def test_a_suspect_that_nobody_could_confirm_is_no_failure(
    job: _Job, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    def give_up(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr("minimizer.engine.graph_search.first_wrong", give_up)
    with ThreadPoolExecutor(1) as beside, pytest.raises(type(error)):
        job._reduce(suspect(), cast(Any, None), cast(Any, Suspects()), beside)
    assert job._report.failure is None


def test_a_suspect_that_cannot_be_taken_apart_leaves_the_question_open(
    job: _Job, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where a later one turns out to be rounding."""
    answers = [Answer(unasked=(Region(0, 1),)), Answer()]

    def cannot_be_traced(case: Case) -> Program:
        raise ChildFailed("no")

    def ask(*_: object, **__: object) -> Answer:
        return answers.pop(0)

    monkeypatch.setattr("minimizer.engine.graph_search.first_wrong", ask)
    monkeypatch.setattr(Case, "lowered", cannot_be_traced)
    first, second = suspect(), suspect()
    with ThreadPoolExecutor(1) as beside, pytest.raises(Unreduced) as end:
        job._reduce(first, cast(Any, None), cast(Any, Suspects(second)), beside)
    assert not first.survey.is_open and not second.survey.is_open  # type: ignore[attr-defined]
    assert (end.value.settled.status, end.value.settled.reason) == (Status.PARTIAL, Reason.NOT_VERIFIED)
    assert not answers


@pytest.mark.parametrize(
    ("call", "said"), [(1, "Call 2 of a graph fails"), (0, "observing it makes the failure vanish")]
)
def test_a_graph_that_passes_by_itself_is_not_reduced(
    job: _Job, monkeypatch: pytest.MonkeyPatch, call: int, said: str
) -> None:
    """One that failed at a later call may need what the earlier ones have left behind."""
    monkeypatch.setattr("minimizer.engine.graph_search.Search._confirmed", lambda *_: None)
    monkeypatch.setattr("minimizer.engine.graph_search.Search._lowered", lambda *_: None)
    case = replace(suspect(), otherwise=None, call=call)
    with ThreadPoolExecutor(1) as beside, pytest.raises(Unreduced) as end:
        job._reduce(case, cast(Any, None), cast(Any, Suspects()), beside)
    assert (end.value.settled.status, end.value.settled.reason) == (Status.PARTIAL, Reason.NOT_VERIFIED)
    assert said in end.value.settled.summary


def test_a_graph_whose_holder_is_gone_leaves_the_question_open() -> None:
    gone = ChildFailed("the holder of the graph is gone")
    mere_suspect = _unanswered(gone, suspect())
    failure = _unanswered(gone, replace(suspect(), otherwise=None))
    assert [(s.status, s.reason) for s in (mere_suspect, failure)] == [(Status.PARTIAL, Reason.NOT_VERIFIED)] * 2
    assert "may be legal rounding" in mere_suspect.summary and "The script fails" in failure.summary


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
        (Cancelled("enough"), "Stopped while running the script: cancelled. No failure had been found by then."),
    ],
    ids=["time", "disk", "owner"],
)  # fmt: skip
def test_a_job_that_is_ended_early_says_what_it_was_doing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception, summary: str
) -> None:
    """And does not speak of a best result where there is none."""
    unfinished = cast(Any, Unfinished(error))
    monkeypatch.setattr(_Job, "_triage", lambda job, surveys, plain: surveys)

    def run(job: _Job) -> None:
        with ThreadPoolExecutor(1) as beside:
            job._result(unfinished, unfinished, unfinished, unfinished, beside)

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


class Overwriting:
    """A Python level that says its own of the failure, and then breaks off."""

    def __init__(self, report: Report, error: Exception) -> None:
        self._report, self._error = report, error

    def repro(self, otherwise: object) -> None:
        self._report.failure = Failure(kind=Kind.RUNTIME_ERROR, signature="another")
        self._report.reduction = None
        raise self._error


@pytest.mark.parametrize("error", [BudgetExceeded("over"), ChildFailed("gone"), Cancelled("enough")])
def test_a_repro_is_not_lost_to_the_attempt_at_a_nicer_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    failure = Failure(kind=Kind.WRONG_OUTPUT, stage=Stage.INDUCTOR, signature="sin")
    report = Report(failure=failure, reduction=Reduction(nodes_before=9, nodes_after=2))
    before = report.model_copy(deep=True)
    journal = Journal(FolderSink(tmp_path / "out"), report, budget=600)
    job = _Job(tmp_path / "a.py", Options(), Settings(), journal, tmp_path / "shared", Path("python"), [], False)
    monkeypatch.setattr(job, "_python_level", lambda executor: Overwriting(report, error))
    result = Kept()

    if isinstance(error, Cancelled):
        with pytest.raises(Cancelled):
            job._in_public(cast(Any, result), cast(Any, None))
    else:
        assert job._in_public(cast(Any, result), cast(Any, None)) is cast(Any, result)
        assert result.times == 1
    assert report == before


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


STRIDES = {
    "fault": True,
    "kind": "wrong_metadata",
    "differences": [{"where": "output", "kind": "wrong_metadata", "what": "stride"}],
}
WELL = Settled(Status.HEALTHY, None, "Healthy.")


def of_layout() -> Case:
    verdict = parse(Verdict, STRIDES)
    return replace(suspect(), signature=verdict_signature(verdict), verdict=verdict, otherwise=None)


class Layouts(Suspects):
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

    def give_up(case: Case, *_: object) -> None:
        job._announce(case)
        raise end

    monkeypatch.setattr(job, "_triage", lambda *_: layouts)
    monkeypatch.setattr(job, "_against", lambda *_: plain)
    monkeypatch.setattr(job, "_reduce", give_up)
    with ThreadPoolExecutor(1) as beside:
        job._result(cast(Any, Unfinished(Cancelled())), *(cast(Any, None),) * 3, beside)
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


def test_a_graph_that_fails_beside_a_fault_between_graphs_is_told(job: _Job, monkeypatch: pytest.MonkeyPatch) -> None:
    case = suspect()
    monkeypatch.setattr(Triage, "run", lambda self: case)
    job._see_graphs(cast(Any, None))
    assert [seen.kind for seen in job._report.also_seen] == [case.signature.kind]
    assert not cast(Any, case.survey).is_open
    assert job._report.failure is None


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
    seen, result = job._between_graphs(cast(Any, None))
    assert (seen, result is not None, job._report.status) == (is_between, repro is not None, status)


@pytest.mark.parametrize("has_compared", [True, False])
def test_state_that_exact_runs_have_compared_is_not_told_as_left_out(job: _Job, has_compared: bool) -> None:
    left = "Python state that traced code changes (self.log): only what graphs compute is compared"
    job._unseen, job._has_compared_state = ("large tensors",), has_compared
    known = job._checked(Checked(not_compared=[left, "sparse tensors"]))
    assert known.not_compared == [*([] if has_compared else [left]), "sparse tensors", "large tensors"]
