"""What a clean process says decides which result a job ends with."""

from __future__ import annotations

import venv
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
import sample_reports

from minimizer.engine.after.follow_up import MAY_SHRINK, FollowUp
from minimizer.engine.budget.clock import Clock
from minimizer.engine.budget.patience import CODE_SECONDS, SHARES, VERIFY_RUNS, VERIFY_SECONDS
from minimizer.engine.child import protocol
from minimizer.engine.child.compilations import Break, StackLine
from minimizer.engine.child.curves import Curve
from minimizer.engine.child.environment import Place
from minimizer.engine.child.outcome import Ending, Outcome
from minimizer.engine.diagnose import Patient
from minimizer.engine.emit import Details, Repro
from minimizer.engine.findings import Diagnosed, Fault
from minimizer.engine.journal import Journal
from minimizer.engine.levels.draft import Draft
from minimizer.engine.levels.parting import EndsWell
from minimizer.engine.survey.runs import TimedRun
from minimizer.errors import BudgetExceeded, DiskExceeded, MemoryExceeded
from minimizer.options import Options
from minimizer.report.examined import Checked
from minimizer.report.generated_code import GeneratedCode
from minimizer.report.model import Blame, Failure, Reduction, Report, Reproducibility, Verification, Workaround
from minimizer.sandbox import choose_sandbox
from minimizer.settings import Settings
from minimizer.sink import FolderSink
from minimizer.vocabulary import Kind, Reason, Stage, Status, Step, counted

HOLDS = Verification(runs=3, failed_same=3, clean_process=True, passes_with_compiler_off=True)
PASSES = Verification(runs=3, failed_same=0, clean_process=True, passes_with_compiler_off=True)
LACKS_TIME = Verification(runs=3, failed_same=2, clean_process=True, passes_with_compiler_off=False, stopped=2)
FLICKERS = Verification(runs=3, failed_same=1, clean_process=True, passes_with_compiler_off=True)


REPRO = Repro(source="", lines=0, kind=Kind.WRONG_OUTPUT, evidence="AssertionError: ")
FAULT = Fault(failure=Failure(kind=Kind.WRONG_OUTPUT), reduction=Reduction(nodes_after=1, one_minimal=True))
LARGER = replace(FAULT, reduction=Reduction(nodes_after=3, one_minimal=False))


@pytest.fixture
def follow_up(tmp_path: Path) -> FollowUp:
    report = Report(failure=Failure(kind=Kind.WRONG_OUTPUT), reduction=Reduction(nodes_after=1, one_minimal=True))
    journal = Journal(FolderSink(tmp_path / "out"), report, Clock(600))
    place = Place(python=Path("python"), sandbox=choose_sandbox("off"), scratch=tmp_path / "job")
    return FollowUp(tmp_path / "a.py", place, cast(Any, None), journal, Options(), Settings())


def decided(follow_up: FollowUp, monkeypatch: pytest.MonkeyPatch, seen: Verification, draft: Draft) -> Report:
    """The report once the verdict is given on a draft of which clean processes say this."""
    monkeypatch.setattr("minimizer.engine.verify.clean_runs.verify", lambda *_, **__: seen)
    _, _, draft = follow_up.verified(draft)
    follow_up.decide(draft)
    return follow_up.report


@pytest.mark.parametrize(
    ("seen", "reason"),
    [
        (LACKS_TIME, Reason.BUDGET),
        (FLICKERS.model_copy(update={"stopped": 2}), Reason.BUDGET),
        (FLICKERS.model_copy(update={"stopped": 1}), Reason.NOT_VERIFIED),
    ],
    ids=["one, and the one without the compiler", "the other two", "one of the other two"],
)
def test_runs_that_were_stopped_say_nothing_against_a_repro(
    follow_up: FollowUp, monkeypatch: pytest.MonkeyPatch, seen: Verification, reason: Reason
) -> None:
    """Such a job is tried again; only a run that ends otherwise tells that the repro does not hold."""
    report = decided(follow_up, monkeypatch, seen, Draft(REPRO, FAULT))
    assert (report.status, report.reason) == (Status.PARTIAL, reason)
    assert f"{counted(seen.stopped, 'run')} had to be stopped" in report.summary


@pytest.mark.parametrize("disputed", [None, "A tolerance would pass."])
def test_a_verified_repro_is_a_success_also_where_the_time_ended_before_it_was_minimal(
    follow_up: FollowUp, monkeypatch: pytest.MonkeyPatch, disputed: str | None
) -> None:
    report = decided(follow_up, monkeypatch, HOLDS, Draft(REPRO, LARGER, disputed=disputed))
    assert (report.status, report.reason) == (Status.MINIMIZED, Reason.DISPUTED if disputed else None)
    assert MAY_SHRINK in report.summary and report.may_shrink
    assert report.summary.endswith(disputed or MAY_SHRINK)


def test_a_repro_that_does_not_hold_is_not_said_to_shrink(follow_up: FollowUp, monkeypatch: pytest.MonkeyPatch) -> None:
    report = decided(follow_up, monkeypatch, PASSES, Draft(REPRO, LARGER))
    assert report.status is Status.PARTIAL and MAY_SHRINK not in report.summary and not report.may_shrink


@pytest.mark.parametrize("left", [500.0, 20.0, 0.0])
def test_clean_runs_have_what_is_left_of_the_budget(
    follow_up: FollowUp, monkeypatch: pytest.MonkeyPatch, left: float
) -> None:
    """And no more, however crowded the machine is; what was held back for them is theirs."""
    given = list[float]()

    def runs(*_: object, timeout: float, left: Callable[[], float], **__: object) -> Verification:
        given.extend((timeout, left()))
        return LACKS_TIME

    monkeypatch.setattr("minimizer.engine.verify.clean_runs.verify", runs)
    monkeypatch.setattr(Clock, "elapsed", property(lambda clock: 600 - left))
    with follow_up.journal.clock.reserving(lambda: 400.0):
        follow_up.verified(Draft(REPRO, FAULT))
    assert given == [VERIFY_SECONDS, left]


def test_a_step_for_which_no_time_is_left_says_so(follow_up: FollowUp, monkeypatch: pytest.MonkeyPatch) -> None:
    follow_up.journal.record(replace(follow_up.journal.fault, verification=HOLDS))
    follow_up.journal.decided_at = 590.0
    monkeypatch.setattr(Clock, "elapsed", property(lambda clock: 600.0))
    with follow_up.adding(Step.LAYERS):
        follow_up.journal.watch()
    assert follow_up.report.notes == [
        "Stopped while measuring layers: no time was left for it. What was not known by then stays unknown."
    ]


@pytest.mark.parametrize(("seen", "is_rewritten"), [(FLICKERS, True), (LACKS_TIME, False), (HOLDS, False)])
def test_a_draft_is_written_again_where_its_failure_turns_out_to_be_flaky(
    follow_up: FollowUp, monkeypatch: pytest.MonkeyPatch, seen: Verification, is_rewritten: bool
) -> None:
    """And is published; runs that were stopped say nothing of its rate."""
    written = list[tuple[object, Reproducibility]]()
    flaky = replace(REPRO, source="# for a flaky failure")

    def write(program: object, details: Details, rate: Reproducibility, *_: object) -> Repro:
        written.append((program, rate))
        return flaky

    monkeypatch.setattr("minimizer.engine.verify.clean_runs.verify", lambda *_, **__: seen)
    monkeypatch.setattr("minimizer.engine.after.follow_up.write", write)
    found = cast(Any, SimpleNamespace(reduced="the program"))
    _, _, draft = follow_up.verified(Draft(REPRO, FAULT, details={}, found=found))
    assert draft.repro is (flaky if is_rewritten else REPRO)
    assert written == ([("the program", Reproducibility(failed=1, runs=3))] if is_rewritten else [])
    assert follow_up.journal.repro == (flaky.source if is_rewritten else None)


@pytest.mark.parametrize("seen", [HOLDS, PASSES])
def test_from_the_verdict_on_a_job_may_be_stopped(
    follow_up: FollowUp, monkeypatch: pytest.MonkeyPatch, seen: Verification
) -> None:
    assert follow_up.journal.decided_at is None
    decided(follow_up, monkeypatch, seen, Draft(REPRO, FAULT))
    assert follow_up.journal.decided_at is not None


@pytest.mark.parametrize(
    ("budget", "verified", "whole"),
    [(900, 100.0, 100), (150, 100.0, 50), (900, 20.0, 90)],
    ids=["ample", "scarce", "soon"],
)
def test_the_steps_behind_verify_take_no_longer_than_the_way_to_it(
    follow_up: FollowUp, monkeypatch: pytest.MonkeyPatch, budget: int, verified: float, whole: int
) -> None:
    """Each gets its share, and what those before it have left; PyTorch's own tools, which come last, have their time."""
    assert [*SHARES, Step.WITNESS] == list(Step)[list(Step).index(Step.VERIFY) + 1 :]
    assert sum(SHARES.values()) == pytest.approx(1)
    journal = Journal(follow_up.journal.sink, follow_up.report, Clock(budget))
    follow_up = replace(follow_up, journal=journal)
    journal.record(replace(journal.fault, verification=HOLDS))
    journal.decided_at = verified
    now = [verified]
    monkeypatch.setattr(Clock, "elapsed", property(lambda self: now[0]))
    assert follow_up.share(Step.DIAGNOSE) == pytest.approx(whole * SHARES[Step.DIAGNOSE])
    assert follow_up.share(Step.FURTHER) == pytest.approx(whole), "where nothing else has taken any"
    so_far = whole * sum(SHARES[step] for step in (Step.DIAGNOSE, Step.CODE, Step.LAYERS))
    with follow_up.adding(Step.LAYERS):
        now[0] += so_far
        journal.watch_owner()
        journal.watch()
    assert follow_up.report.notes == ["Stopped while measuring layers: its share of the time (" f"{so_far:.0f} s) was used up. "
        "What was not known by then stays unknown."]  # fmt: skip
    assert follow_up.share(Step.HEALTH) == pytest.approx(whole * SHARES[Step.HEALTH])
    now[0] = verified + whole
    assert follow_up.share(Step.FURTHER) == 0
    assert follow_up.share(Step.WITNESS) == pytest.approx(min(120.0, budget - verified - whole))


def test_a_step_without_a_second_is_said_to_have_had_no_time(
    follow_up: FollowUp, monkeypatch: pytest.MonkeyPatch
) -> None:
    follow_up.journal.record(replace(follow_up.journal.fault, verification=HOLDS))
    follow_up.journal.decide()
    monkeypatch.setattr(FollowUp, "share", lambda self, step: 0.0)
    with follow_up.adding(Step.LAYERS):
        follow_up.journal.watch()
    assert follow_up.report.notes == [
        "Stopped while measuring layers: no time was left for it. What was not known by then stays unknown."
    ]


@pytest.mark.parametrize("error", [DiskExceeded("the disk is full"), MemoryExceeded("its memory is used up")])
def test_a_step_that_ended_for_want_of_something_else_is_not_laid_to_its_time(
    follow_up: FollowUp, error: BudgetExceeded
) -> None:
    follow_up.journal.record(replace(follow_up.journal.fault, verification=HOLDS))
    follow_up.journal.decide()
    with follow_up.adding(Step.LAYERS):
        raise error
    assert follow_up.report.notes == [
        f"Stopped while measuring layers: {error}. What was not known by then stays unknown."
    ]


class Skipping(FolderSink):
    """A folder whose owner wants to skip one of the steps."""

    def skipped(self) -> str | None:
        return "layers"


@pytest.mark.parametrize("watch", [Journal.watch, Journal.watch_owner])
def test_the_owner_skips_a_step_and_the_next_one_is_taken(
    follow_up: FollowUp, tmp_path: Path, watch: Callable[[Journal], None]
) -> None:
    events: list[dict[str, Any]] = []
    follow_up = replace(
        follow_up, journal=Journal(Skipping(tmp_path / "out", events.append), follow_up.report, Clock(600))
    )
    follow_up.journal.record(replace(follow_up.journal.fault, verification=HOLDS))
    follow_up.journal.decide()
    reached = []
    for step in (Step.DIAGNOSE, Step.LAYERS, Step.HEALTH):
        with follow_up.adding(step):
            watch(follow_up.journal)
            reached.append(step)
    assert reached == [Step.DIAGNOSE, Step.HEALTH]
    assert follow_up.report.notes == [
        "Skipped by request while measuring layers. What was not known by then stays unknown."
    ]
    assert {Step.LAYERS, Step.HEALTH} <= follow_up.report.timings.keys()
    told = [event["skippable"] for event in events if event["type"] == "progress"]
    assert told == [None, "diagnose", None, "layers", None, "health", None]


def test_without_a_verified_repro_no_step_is_skipped(follow_up: FollowUp, tmp_path: Path) -> None:
    """What a witness finds may be all there is."""
    follow_up = replace(follow_up, journal=Journal(Skipping(tmp_path / "out"), follow_up.report, Clock(600)))
    follow_up.journal.record(replace(follow_up.journal.fault, verification=PASSES))
    follow_up.journal.decide()
    with follow_up.adding(Step.LAYERS):
        follow_up.journal.watch()
    assert follow_up.report.notes == []


def test_without_a_repro_a_witness_may_take_what_is_left(follow_up: FollowUp) -> None:
    """It may be the only one that finds something."""
    follow_up.journal.record(replace(follow_up.journal.fault, verification=PASSES))
    follow_up.journal.decide()
    assert follow_up.share(Step.WITNESS) == pytest.approx(follow_up.journal.clock.left, abs=1)


@pytest.mark.parametrize(("survey", "fits"), [(20.0, True), (50.0, False)])
def test_a_run_more_of_the_script_is_not_begun_that_cannot_end(
    follow_up: FollowUp, monkeypatch: pytest.MonkeyPatch, survey: float, fits: bool
) -> None:
    follow_up.journal.record(replace(follow_up.journal.fault, verification=HOLDS))
    follow_up.journal.decided_at = 100.0
    follow_up.report.timings = {"survey": survey}
    monkeypatch.setattr(Clock, "elapsed", property(lambda self: 160.0))
    assert follow_up.has_time(Step.HEALTH) == fits
    assert bool(follow_up.report.notes) != fits


def test_calls_that_are_not_timed_say_why(follow_up: FollowUp) -> None:
    follow_up = replace(follow_up, surveys=cast(Any, SimpleNamespace(first=None, crowding=1.0)))
    report = follow_up.report
    report.timings[Step.SURVEY] = 400.0
    follow_up.examine()
    assert report.health.untimed == "there was no time for one more run of the script"
    follow_up.journal.record(replace(follow_up.journal.fault, failure=Failure(kind=Kind.CRASH)))
    follow_up.examine()
    assert report.health.untimed == "the script does not come to its end"


def out_of_time(trace: str) -> None:
    raise BudgetExceeded("late")


def without_a_loss(request: object, timeout: float) -> Outcome:
    return Outcome(ending=Ending.SAME, curve=Curve(took=1.0))


@pytest.mark.parametrize(
    ("survey", "backward", "health", "why"),
    [
        (400.0, 4, out_of_time, "there was no time for further runs of the script"),
        (1.0, 4, out_of_time, "the runs that compare them did not come to their end"),
        (1.0, 4, lambda trace: None, ""),
        (400.0, 0, out_of_time, ""),
    ],
    ids=["a long survey", "the time ends", "no loss is seen", "no training"],
)
def test_losses_of_a_training_that_are_not_compared_say_why(
    follow_up: FollowUp, survey: float, backward: int, health: Callable[[str], None], why: str
) -> None:
    surveys = SimpleNamespace(first=None, crowding=1.0, health=health, asked=without_a_loss, args=[])
    follow_up = replace(follow_up, surveys=cast(Any, surveys))
    follow_up.journal.record(replace(follow_up.journal.fault, failure=None))
    report = follow_up.report
    report.timings[Step.SURVEY], report.checked = survey, Checked(backward=backward)
    follow_up.examine()
    if why:
        assert report.drift is not None and report.drift.verdict == "untold"
        assert report.drift.what == f"The losses with the compiler and without were not compared: {why}."
    else:
        assert report.drift is None


@pytest.mark.parametrize(("broken", "is_run"), [(1, True), (0, False)])
def test_where_nothing_was_compiled_one_more_run_tries_remedies_of_a_known_break(
    follow_up: FollowUp, broken: int, is_run: bool
) -> None:
    place = StackLine(file="a.py", line=3)
    first = protocol.Health(broken=[Break(reason="Observed exception", stack=[place], is_whole=True)] * broken)
    runs = list[str]()
    surveys = SimpleNamespace(first=first, crowding=1.0, health=lambda trace: runs.append(trace))
    follow_up = replace(follow_up, surveys=cast(Any, surveys))
    follow_up.journal.record(replace(follow_up.journal.fault, failure=None))
    report = follow_up.report
    report.status, report.reason, report.timings = Status.FAILED, Reason.NOTHING_COMPILED, {Step.SURVEY: 1.0}
    follow_up.examine()
    assert (bool(runs), bool(report.findings), report.drift) == (is_run, is_run, None)


@pytest.mark.parametrize("changes", [{"nproc": 2}, {"expect": "crash"}])
def test_nothing_is_said_of_losses_that_are_never_compared(follow_up: FollowUp, changes: dict[str, Any]) -> None:
    options = follow_up.options.model_copy(update=changes)
    follow_up = replace(follow_up, surveys=cast(Any, SimpleNamespace(first=None)), options=options)
    follow_up.journal.record(replace(follow_up.journal.fault, failure=None))
    follow_up.report.timings[Step.SURVEY], follow_up.report.checked = 400.0, Checked(backward=4)
    follow_up.examine()
    assert follow_up.report.drift is None


@pytest.mark.parametrize(
    ("backwards", "stopped", "is_asked"), [(0, False, False), (3, False, True), (0, True, True), (None, False, True)]
)
def test_the_losses_of_a_script_are_asked_for_where_it_may_train(
    follow_up: FollowUp, monkeypatch: pytest.MonkeyPatch, backwards: int | None, stopped: bool, is_asked: bool
) -> None:
    """They cost a run of the script, also to find that there are none."""
    asked = list[bool]()
    run = TimedRun(protocol.Health(backwards=backwards), protocol.Finished(stopped=stopped))
    here = "minimizer.engine.after.follow_up"
    monkeypatch.setattr(f"{here}.examine", lambda *_, **__: run)
    monkeypatch.setattr(f"{here}.advise", lambda *_, **__: None)
    monkeypatch.setattr(f"{here}.drift.examine", lambda *_: asked.append(True))
    follow_up = replace(follow_up, surveys=cast(Any, SimpleNamespace(first=None, crowding=1.0)))
    follow_up.journal.record(replace(follow_up.journal.fault, failure=None))
    follow_up.report.timings[Step.SURVEY] = 1.0
    follow_up.examine()
    assert bool(asked) is is_asked


@pytest.mark.parametrize(
    ("stage", "seen", "is_read"),
    [
        (Stage.INDUCTOR, HOLDS, True),
        (Stage.DECOMPOSITION, HOLDS, True),
        (Stage.DYNAMO, HOLDS, False),
        (Stage.CUSTOM_OP, HOLDS, False),
        (Stage.INDUCTOR, FLICKERS, False),
    ],
)
def test_generated_code_is_read_where_it_may_be_wrong(
    follow_up: FollowUp, monkeypatch: pytest.MonkeyPatch, stage: Stage, seen: Verification, is_read: bool
) -> None:
    kernel, asked = sample_reports.kernel(), list[float]()

    def read(*_: object, blame: object, seconds: float) -> GeneratedCode:
        asked.append(seconds)
        return kernel

    monkeypatch.setattr("minimizer.engine.after.follow_up.generated_code", read)
    follow_up.journal.record(replace(follow_up.journal.fault, failure=Failure(kind=Kind.WRONG_OUTPUT, stage=stage)))
    follow_up.journal.record(replace(follow_up.journal.fault, verification=seen))
    follow_up.journal.decide()
    follow_up.read_code(cast(Any, SimpleNamespace(repro=None, data=None)))
    assert follow_up.report.generated_code == (kernel if is_read else None)
    assert asked == ([pytest.approx(max(CODE_SECONDS, follow_up.share(Step.CODE)), abs=1)] if is_read else [])
    assert (Step.CODE.value in follow_up.report.timings) == is_read


def in_clean_python(folder: Path, *packages: str) -> FollowUp:
    """The steps of a job whose interpreter has only these empty modules beside the standard library, and no sandbox."""
    venv.create(folder / "env", with_pip=False)
    site = next((folder / "env" / "lib").glob("python*")) / "site-packages"
    for name in packages:
        (site / name).parent.mkdir(exist_ok=True)
        (site / name).touch()
    (scratch := folder / "job").mkdir()
    place = Place(python=folder / "env" / "bin" / "python", sandbox=choose_sandbox("off"), scratch=scratch)
    report = Report(failure=Failure(kind=Kind.WRONG_OUTPUT), reduction=Reduction(nodes_after=1, one_minimal=True))
    journal = Journal(FolderSink(folder / "out"), report, Clock(600))
    return FollowUp(folder / "a.py", place, cast(Any, None), journal, Options(), Settings())


def test_a_repro_that_lacked_an_import_is_the_result_from_there_on(tmp_path: Path) -> None:
    """Our own processes have imported what it uses: all that runs it later is to run what was verified."""
    source = """
import os, types
import torch
if not hasattr(torch, "part"):
    raise SystemExit("cannot run here: module 'torch' has no attribute 'part'")
if "TORCHDYNAMO_DISABLE" not in os.environ:
    raise AssertionError("wrong")
"""
    follow_up = in_clean_python(tmp_path, "torch/__init__.py", "torch/part.py")
    lacking = follow_up.if_it_holds(Draft(replace(REPRO, source=source), FAULT))
    assert lacking is not None
    seen, _, draft = follow_up.verified(lacking)
    assert seen.holds and follow_up.report.verification == seen
    assert "import torch\nimport torch.part\n" in draft.repro.source
    assert follow_up.journal.repro == draft.repro.source


SHOWS = "raise SystemExit('DYNAMO' not in repr(os.environ) and 'AssertionError: wrong')"
"""The end of a script that fails with the compiler only."""


def counting(folder: Path, end: str) -> Draft:
    """The draft of a script that notes each of its runs in a file."""
    note = f"import os\nwith open({str(folder / 'runs')!r}, 'a') as file:\n    file.write('.')\n"
    return Draft(replace(REPRO, source=f"{note}{end}\n"), FAULT)


def test_clean_runs_that_a_draft_was_kept_for_verify_it(tmp_path: Path) -> None:
    follow_up = in_clean_python(tmp_path)
    held = follow_up.if_it_holds(counting(tmp_path, SHOWS))
    assert held is not None
    seen, notes, _ = follow_up.verified(held)
    assert (seen.holds, seen.runs, notes) == (True, VERIFY_RUNS, [])
    assert len((tmp_path / "runs").read_text()) == VERIFY_RUNS + 1, "each run was made once"


@pytest.mark.parametrize(
    "change", [{"repro": replace(REPRO, source="pass\n")}, {"data": b"other"}], ids=["repro", "data"]
)
def test_clean_runs_of_another_repro_verify_nothing(tmp_path: Path, change: dict[str, Any]) -> None:
    follow_up = in_clean_python(tmp_path)
    by_data = "raise SystemExit(not os.path.exists('data.pt') and 'DYNAMO' not in repr(os.environ) and 'AssertionError: wrong')"
    held = follow_up.if_it_holds(counting(tmp_path, by_data))
    assert held is not None
    seen, _, _ = follow_up.verified(replace(held, **change))
    assert (seen.holds, seen.failed_same) == (False, 0)


@pytest.mark.parametrize("end", ["", "raise SystemExit('AssertionError: wrong')"], ids=["passes", "fails in eager too"])
def test_a_draft_that_does_not_hold_in_clean_processes_is_none(tmp_path: Path, end: str) -> None:
    assert in_clean_python(tmp_path).if_it_holds(counting(tmp_path, end)) is None


def test_runs_that_lacked_time_are_made_again(follow_up: FollowUp, monkeypatch: pytest.MonkeyPatch) -> None:
    ends = iter([LACKS_TIME, HOLDS])
    monkeypatch.setattr("minimizer.engine.verify.clean_runs.verify", lambda *_, **__: next(ends))
    held = follow_up.if_it_holds(Draft(REPRO, FAULT))
    assert held is not None and follow_up.verified(held)[0] == HOLDS


def test_a_script_that_ends_well_has_a_part_to_blame_and_no_workaround(
    follow_up: FollowUp, monkeypatch: pytest.MonkeyPatch
) -> None:
    none = Workaround(code="", verified=False, what="None but switching the compiler off")
    found = Diagnosed(blame=Blame(subsystem="fusion", items=["fusion"]), workaround=none)
    monkeypatch.setattr("minimizer.engine.after.follow_up.diagnose", lambda *_, keep, **__: keep(found))
    follow_up.journal.record(replace(follow_up.journal.fault, failure=Failure(kind=Kind.WRONG_OUTPUT)))
    follow_up.diagnose(Patient(cast(Any, None), EndsWell(), follow_up.script), follow_up.journal.fault)
    fault = follow_up.journal.fault
    assert fault.workaround is None
    assert fault.blame is not None and fault.blame.confirmed_on_script is None
