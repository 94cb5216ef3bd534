"""What the steps behind a repro find becomes part of the report, as far as it is known."""

from __future__ import annotations

from dataclasses import fields, replace
from pathlib import Path

from minimizer.engine import fold
from minimizer.engine.budget.clock import Clock
from minimizer.engine.findings import Diagnosed, Fault
from minimizer.engine.journal import Journal
from minimizer.report.culprit import Culprit
from minimizer.report.examined import Version
from minimizer.report.model import Blame, Failure, Flag, Report, Workaround
from minimizer.sink import FolderSink
from minimizer.vocabulary import Kind, Status

ALONE = {"failure", "reduction", "verification", "blame", "workaround", "generated_code", "status", "reason", "summary"}
"""Fields that are no sequences."""
LOWERING = "lowerings/aten.relu.default"
BLAME = Blame(subsystem="lowerings", items=[LOWERING], confirmed=True, what="the lowering of aten.relu")


def test_a_diagnosis_that_goes_on_is_taken_again() -> None:
    flags = (Flag(name="a", value="1", outcome="passes"),)
    first = fold.diagnosed(Fault(culprits=(Culprit(module="act"),)), Diagnosed(blame=BLAME))
    last = fold.diagnosed(
        first, Diagnosed(blame=BLAME, flags=flags, workaround=Workaround(code="x", verified=True, what=""))
    )
    assert last.culprits == first.culprits and first.culprits[0].ops == ["aten.relu"]
    assert last.flags == flags and last.workaround is not None


def test_a_culprit_keeps_the_operator_that_it_has() -> None:
    known = Culprit(nodes=["y"], ops=["aten.tanh"], what="tanh")
    assert fold.blamed(known, BLAME) == known


def test_a_report_says_what_is_known_of_its_fault_and_an_earlier_value_takes_it_back(tmp_path: Path) -> None:
    journal = Journal(FolderSink(tmp_path), Report(notes=["kept"]), Clock(60))
    before = journal.fault
    journal.record(
        replace(before, failure=Failure(kind=Kind.CRASH), culprits=(Culprit(module="act"),), status=Status.PARTIAL)
    )
    told = journal.report.model_copy()
    assert fold.fault_of(told) == journal.fault != before
    journal.record(before)
    assert fold.fault_of(journal.report) == before
    assert journal.report.notes == ["kept"] and told.failure is not None


def test_every_field_of_a_fault_is_one_of_the_report_and_is_told() -> None:
    """A field that the fold forgets would be lost in silence."""
    full = Fault(**{field.name: object() if field.name in ALONE else (object(),) for field in fields(Fault)})
    report = Report()
    fold.of_fault(report, full)
    for field in fields(Fault):
        told, known = getattr(report, field.name), getattr(full, field.name)
        assert told == (known if field.name in ALONE else list(known)), field.name


def test_the_torch_of_the_job_comes_first_where_there_are_others() -> None:
    assert fold.compared([], "2.13.0") == ()
    told = fold.compared([Version(name="old", torch="2.11.0", outcome="passes")], "2.13.0")
    assert [(one.name, one.torch, one.outcome) for one in told] == [
        (fold.OWN, "2.13.0", "fails"),
        ("old", "2.11.0", "passes"),
    ]
