"""A budget is a promise: wherever the time ends, there is a repro if one can be had, and time left to verify it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from pathlib import Path
from threading import Event
from typing import Any, cast

import pytest
from slow_child import SlowChild, goes_by
from toy_programs import chain

from minimizer.engine.budget.clock import Clock
from minimizer.engine.budget.patience import VERIFY_SECONDS
from minimizer.engine.child.bounded import parse
from minimizer.engine.child.outcome import Ending, Outcome
from minimizer.engine.diagnose.original import RerunScript
from minimizer.engine.journal import Journal
from minimizer.engine.levels.draft import Draft
from minimizer.engine.levels.graph import UNBLAMED, UNLOCATED, Search
from minimizer.engine.levels.script import MadeScript, PythonLevel
from minimizer.engine.levels.window import Unreduced, accepted
from minimizer.engine.oracle.oracle import Oracle
from minimizer.engine.oracle.signature import Signature
from minimizer.engine.program.model import Program
from minimizer.engine.reduce.python import Rerun
from minimizer.engine.survey.cases import Case, Settled
from minimizer.engine.survey.verdicts import unexamined
from minimizer.engine.verify.reserve import clean_run_timeout, to_finish, to_verify
from minimizer.errors import BudgetExceeded, ChildFailed, DiskExceeded
from minimizer.inside.questions import ScriptRequest, TrialRequest
from minimizer.report.model import Failure, Report, Reproducibility
from minimizer.sink import FolderSink
from minimizer.vocabulary import Kind, Reason, Stage, Status

START = 4.0
"""Seconds that torch takes to start."""
TARGETS = ["torch.sin", "torch.cos", "torch.relu", "torch.tanh", "torch.exp", "torch.neg", "torch.abs", "torch.sqrt"]
DIFFERENCE = {
    "where": "output[0]",
    "kind": "wrong_output",
    "max_abs": 0.5,
    "required_atol": 0.25,
    "required_rtol": 0.125,
}
WRONG = parse(
    Outcome, {"ending": "different", "verdict": {"fault": True, "kind": "wrong_output", "differences": [DIFFERENCE]}}
)
RIGHT = Outcome(ending=Ending.SAME)


@pytest.fixture(autouse=True)
def _on_a_quiet_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """The tests' own load and cores are not those of the machine that they describe, which has two."""
    monkeypatch.setattr("minimizer.engine.verify.reserve.crowding", lambda: 1.0)
    monkeypatch.setattr("minimizer.engine.verify.reserve.os.sched_getaffinity", lambda pid: {0, 1})


def relu_is_wrong(request: TrialRequest) -> Outcome:
    is_inductor = "eager" not in request.compile_kwargs
    return WRONG if "relu" in request.source and is_inductor else RIGHT


class Holder:
    """A held call whose values are small enough to be written down."""

    def program(self, level: str) -> Program:
        raise ChildFailed("the graph has one form only")

    def golden(self, keys: frozenset[str]) -> Path:
        return Path("/golden.pt")

    def trim(self) -> None:
        """Nothing was written."""

    def literal(self, key: str) -> str:
        return "torch.ones(8, 8)"

    def data(self, names: dict[str, str]) -> bytes:
        return b"values"


class Searched:
    """The search for a repro of a graph in which one operator of eight is wrong, where each trial takes ``seconds`` of a ``budget``."""

    def __init__(
        self,
        folder: Path,
        monkeypatch: pytest.MonkeyPatch,
        *,
        budget: float,
        seconds: float,
        answer: Callable[[Any], Outcome] = relu_is_wrong,
        targets: Sequence[str] = TARGETS,
        otherwise: Settled | None = None,
    ) -> None:
        self.report = Report(failure=Failure(kind=Kind.WRONG_OUTPUT))
        self.journal = Journal(FolderSink(folder / "out"), self.report, Clock(budget))
        self.clock = self.journal.clock
        self.clock.pace.start = START
        self.child = SlowChild(self.journal, answer, seconds=seconds)
        goes_by(self.child, monkeypatch)
        signature = Signature(Kind.WRONG_OUTPUT, what="value")
        case = Case(cast(Any, Holder()), chain(targets), signature, "differs", otherwise=otherwise)
        (folder / "a.py").write_text("import torch\n")
        oracle = Oracle(cast(Any, self.child), case.survey, accepted(signature))
        self.search = Search(
            case,
            oracle,
            self.journal,
            script=folder / "a.py",
            target=None,
            jobs=1,
        )

    def run(self) -> Draft:
        return self.search.run(_at_once, self.journal.fault)


def _at_once(seen: Reproducibility, enough: int, over: Event) -> Future[Reproducibility]:
    future: Future[Reproducibility] = Future()
    future.set_result(Reproducibility(failed=enough, runs=enough))
    return future


def test_the_script_is_not_run_again_behind_a_search_that_has_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next suspect has the machine to itself."""
    job = Searched(tmp_path, monkeypatch, budget=3000, seconds=1.0, answer=lambda _: RIGHT)
    asked: list[Event] = []

    def repeat(seen: Reproducibility, enough: int, over: Event) -> Future[Reproducibility]:
        asked.append(over)
        return Future()  # it is still running when the search ends

    with pytest.raises(Unreduced):
        job.search.run(repeat, job.journal.fault)
    assert [over.is_set() for over in asked] == [True]


def test_with_time_enough_the_repro_is_minimal_and_its_stage_known(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = Searched(tmp_path, monkeypatch, budget=3000, seconds=1.0)
    result = job.run()
    assert "relu" in result.repro.source and "tanh" not in result.repro.source
    assert job.report.reduction is not None and job.report.reduction.one_minimal
    assert job.report.failure is not None and job.report.failure.stage is Stage.INDUCTOR
    assert not {UNLOCATED, UNBLAMED} & set(job.report.notes)


@pytest.mark.parametrize("seconds", [1.0, 2.0, 3.0, 5.0, 8.0])
@pytest.mark.parametrize("budget", [60, 90, 150, 300])
def test_wherever_the_time_ends_there_is_a_repro_and_time_to_verify_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, budget: float, seconds: float
) -> None:
    job = Searched(tmp_path, monkeypatch, budget=budget, seconds=seconds)
    result = job.run()
    assert "relu" in result.repro.source and job.journal.repro == result.repro.source
    assert job.report.culprits and "aten.relu" in job.report.culprits[0].ops
    needed = to_verify(job.clock.pace, Kind.WRONG_OUTPUT)
    assert job.clock.left >= min(needed, budget / 2) - seconds


def test_a_graph_that_was_not_taken_apart_in_time_is_the_repro(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def all_together(request: TrialRequest) -> Outcome:
        return relu_is_wrong(request) if request.source.count("torch.") > 60 else RIGHT

    job = Searched(tmp_path, monkeypatch, budget=100, seconds=4.0, answer=all_together, targets=TARGETS * 8)
    result = job.run()
    assert UNLOCATED in job.report.notes
    assert result.repro.source.count("torch.relu(") == result.repro.source.count("torch.sqrt(") == 8
    reduction = job.report.reduction
    assert reduction is not None and (reduction.nodes_before, reduction.nodes_after) == (64, 64)
    assert not reduction.one_minimal
    assert job.clock.left >= to_verify(job.clock.pace, Kind.WRONG_OUTPUT) - 4.0


def test_a_mere_suspect_is_no_repro_where_the_time_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    healthy = unexamined(Settled(Status.HEALTHY, None, "Healthy."))
    job = Searched(tmp_path, monkeypatch, budget=60, seconds=8.0, otherwise=healthy)
    with pytest.raises(BudgetExceeded):
        job.run()
    assert job.journal.repro is None


def test_a_graph_that_does_not_fail_by_itself_is_no_repro_where_the_time_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = Searched(tmp_path, monkeypatch, budget=30, seconds=8.0, answer=lambda request: RIGHT)
    with pytest.raises(BudgetExceeded):
        job.run()
    assert job.journal.repro is None


def test_a_graph_that_is_not_seen_to_fail_in_its_time_leaves_other_ways_theirs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a crowded machine most of the time is held back to verify a repro, and there is none yet."""
    job = Searched(tmp_path, monkeypatch, budget=900, seconds=8.0, answer=lambda request: RIGHT, targets=TARGETS * 16)
    monkeypatch.setattr("minimizer.engine.verify.reserve.crowding", lambda: 100.0)
    with pytest.raises(Unreduced) as end:
        job.run()
    assert "in the time" in end.value.settled.summary and job.clock.left > 300


def test_a_stage_that_takes_too_long_is_left_for_the_verification(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The ladder hangs: nothing is known but the failure, and a verified repro is worth more."""

    def stuck(request: TrialRequest) -> Outcome:
        if "aot_eager" in request.compile_kwargs:
            while True:
                job.child.elapsed += 1.0
                job.journal.watch()
        return relu_is_wrong(request)

    job = Searched(tmp_path, monkeypatch, budget=600, seconds=1.0, answer=stuck)
    result = job.run()
    assert "tanh" not in result.repro.source and UNBLAMED in job.report.notes
    assert job.report.failure is not None and job.report.failure.stage is Stage.UNKNOWN
    assert job.report.culprits[0].ops == ["aten.relu"]
    assert job.clock.left >= to_verify(job.clock.pace, Kind.WRONG_OUTPUT) - 1.0


def test_a_full_disk_is_not_taken_for_a_want_of_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(request: TrialRequest) -> Outcome:
        if "aot_eager" in request.compile_kwargs:
            raise DiskExceeded("the disk is full")
        return relu_is_wrong(request)

    job = Searched(tmp_path, monkeypatch, budget=600, seconds=1.0, answer=full)
    with pytest.raises(DiskExceeded):
        job.run()


def test_what_is_held_back_is_what_this_machine_takes() -> None:
    clock = Clock(900)
    clock.pace.start = 3.0
    idle = to_verify(clock.pace, Kind.WRONG_OUTPUT)
    clock.pace.ended(2.0)
    assert to_verify(clock.pace, Kind.WRONG_OUTPUT) < idle, "a trial takes less than a start"
    for _ in range(20):
        clock.pace.ended(30.0)
    crowded = to_verify(clock.pace, Kind.WRONG_OUTPUT)
    assert crowded > 5 * idle
    assert to_verify(clock.pace, Kind.HANG) > crowded, "each compiled run waits for the hang"
    assert to_finish(clock.pace, Kind.WRONG_OUTPUT) > crowded + 5 * 30
    for _ in range(20):
        clock.pace.ended(2.0)
    assert to_verify(clock.pace, Kind.WRONG_OUTPUT) < idle, "the latest count"


def test_what_is_held_back_grows_with_what_else_the_machine_has_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    """The child started before the others came: what it took says nothing of clean runs beside them."""
    clock = Clock(900)
    clock.pace.start = 3.0
    alone = to_verify(clock.pace, Kind.WRONG_OUTPUT)
    monkeypatch.setattr("minimizer.engine.verify.reserve.crowding", lambda: 2.0)
    assert to_verify(clock.pace, Kind.WRONG_OUTPUT) == 2 * alone


def test_what_else_the_machine_had_to_do_from_the_start_is_counted_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The child was as slow for it as clean runs will be."""
    clock = Clock(900)
    clock.pace.start, clock.pace.crowding = 12.0, 4.0
    alone = to_verify(clock.pace, Kind.WRONG_OUTPUT)
    monkeypatch.setattr("minimizer.engine.verify.reserve.crowding", lambda: 4.0)
    assert to_verify(clock.pace, Kind.WRONG_OUTPUT) == alone
    monkeypatch.setattr("minimizer.engine.verify.reserve.crowding", lambda: 8.0)
    assert to_verify(clock.pace, Kind.WRONG_OUTPUT) == 2 * alone


def test_what_is_held_back_for_clean_runs_goes_by_a_cold_cache() -> None:
    """A reduction ends with trials of what was compiled before; a clean process compiles everything anew."""
    clock = Clock(900)
    clock.pace.start = 3.0
    clock.pace.ended(0.5, compiles=False)  # a run of the script on eager's kernels
    clock.pace.ended(9.0)
    cold = to_verify(clock.pace, Kind.WRONG_OUTPUT)
    for _ in range(20):
        clock.pace.ended(0.2)
    assert to_verify(clock.pace, Kind.WRONG_OUTPUT) == cold
    assert to_finish(clock.pace, Kind.WRONG_OUTPUT) < cold + 9.0


def test_a_slow_machine_has_more_time_for_a_clean_run() -> None:
    """Clean runs of a repro that took 38 seconds of processor were once stopped after 180 seconds, with most of the budget left."""
    clock = Clock(3600)
    clock.pace.start = 3.0
    assert clean_run_timeout(clock.pace) == VERIFY_SECONDS
    clock.pace.start = 60.0
    clock.pace.ended(60.0)
    assert clean_run_timeout(clock.pace) > 2 * VERIFY_SECONDS


SCRIPT = """\
import torch


def boom(x):
    y = x.sin()
    return y + 1


f = torch.compile(boom)
z = torch.ones(2)
f(z)
f(torch.ones(3))
print("done")
"""


def dies(request: ScriptRequest) -> Outcome:
    """A script that dies in a call of ``f`` where it is compiled."""
    dump = f'Fatal Python error: Aborted\n\nCurrent thread 0x1 (most recent call first):\n  File "{request.script}", line 11 in <module>\n'
    is_dying = request.compile and "f(" in request.text
    return Outcome(ending=Ending.CRASH, phase="compiled", signal=6, stacks=dump) if is_dying else RIGHT


@pytest.mark.parametrize(("budget", "is_minimal"), [(50, False), (60, False), (240, True), (5000, True)])
def test_wherever_the_time_ends_there_is_a_reduced_script_and_time_to_verify_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, budget: float, is_minimal: bool
) -> None:
    (tmp_path / "a.py").write_text(SCRIPT)
    journal = Journal(FolderSink(tmp_path / "out"), Report(), Clock(budget))
    journal.clock.pace.start = START
    child = SlowChild(journal, dies, seconds=3.0)
    goes_by(child, monkeypatch)
    level = PythonLevel(cast(Any, child), tmp_path / "a.py", [], journal, jobs=1)
    draft = level.draft(Settled(Status.FAILED, Reason.UNEXPLAINED, "", kind=Kind.CRASH))
    assert draft is not None and journal.repro == draft.repro.source and journal.report.culprits
    reduction = journal.report.reduction
    assert reduction is not None and reduction.one_minimal == is_minimal
    assert reduction.nodes_after <= reduction.nodes_before
    assert journal.clock.left >= min(to_verify(journal.clock.pace, Kind.CRASH), budget / 4) - 3.0


def test_the_reduction_of_a_script_of_calls_leaves_time_to_other_ways(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Clean processes may not show what comes out of it."""
    left = {}
    for share in (0.0, 0.5):
        (tmp_path / "a.py").write_text(SCRIPT)
        journal = Journal(FolderSink(tmp_path / f"out{share}"), Report(), Clock(200))
        journal.clock.pace.start = START
        child = SlowChild(journal, dies, seconds=3.0)
        goes_by(child, monkeypatch)
        rerun = Rerun(cast(Any, child), tmp_path / "a.py")
        original = RerunScript(rerun, tmp_path / "a.py", [])
        made = MadeScript(SCRIPT, original, "", None, cured=lambda text: "", kept_share=share)
        level = PythonLevel(cast(Any, child), tmp_path / "a.py", [], journal, jobs=1, made=made)
        left_before = journal.clock.left
        assert level.draft(Settled(Status.FAILED, Reason.UNEXPLAINED, "", kind=Kind.CRASH)) is not None
        reduction = journal.report.reduction
        assert reduction is not None and not reduction.one_minimal
        left[share] = journal.clock.left / left_before
    assert left[0.0] < 0.2 < 0.35 < left[0.5]


def test_a_reduced_script_never_has_more_nodes_than_it_had(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run is seen to make more calls once what it calls was inlined into what is compiled."""
    (tmp_path / "a.py").write_text(SCRIPT)
    journal = Journal(FolderSink(tmp_path / "out"), Report(), Clock(5000))

    def counts(request: ScriptRequest) -> Outcome:
        seen = 397 if len(request.text) < len(SCRIPT) / 2 else 70
        return dies(request).model_copy(update={"calls": seen if request.observe else 0})

    child = SlowChild(journal, counts, seconds=1.0)
    goes_by(child, monkeypatch)
    level = PythonLevel(cast(Any, child), tmp_path / "a.py", [], journal, jobs=1)
    assert level.draft(Settled(Status.FAILED, Reason.UNEXPLAINED, "", kind=Kind.CRASH)) is not None
    reduction = journal.report.reduction
    assert reduction is not None and reduction.nodes_after == 397 <= reduction.nodes_before


def fails_below_inductor(request: TrialRequest) -> Outcome:
    """A fault of AOTAutograd's."""
    return WRONG if "relu" in request.source and "'eager'" not in request.compile_kwargs else RIGHT


def test_trials_run_on_the_cheapest_backend_that_shows_the_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    def answer(request: TrialRequest) -> Outcome:
        asked.append(request.compile_kwargs)
        return fails_below_inductor(request)

    job = Searched(tmp_path, monkeypatch, budget=3000, seconds=1.0, answer=answer)
    result = job.run()
    assert "relu" in result.repro.source and "tanh" not in result.repro.source
    assert "aot_eager" not in result.repro.source
    assert job.report.failure is not None and job.report.failure.stage is Stage.AOT_AUTOGRAD
    cheap = "backend='aot_eager'"
    climbed = asked.index(cheap) + 1
    until = next(number for number, one in enumerate(asked) if number > climbed and one != cheap)
    assert until - climbed >= 4


def test_what_fails_on_a_cheaper_backend_only_goes_on_from_where_it_failed_on_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def answer(request: TrialRequest) -> Outcome:
        needs = ["relu"] if "eager" in request.compile_kwargs else ["relu", "exp"]
        return WRONG if all(name in request.source for name in needs) else RIGHT

    job = Searched(tmp_path, monkeypatch, budget=3000, seconds=1.0, answer=answer)
    result = job.run()
    assert "relu" in result.repro.source and "exp" in result.repro.source and "abs" not in result.repro.source
    assert job.report.reduction is not None and job.report.reduction.one_minimal
