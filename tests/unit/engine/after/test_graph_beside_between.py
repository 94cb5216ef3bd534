"""A fault between graphs and one in a graph: which is the job's, and what is said of the other."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest
import sample_reports

from minimizer.engine.after.follow_up import FollowUp
from minimizer.engine.after.graph_beside_between import Reached, in_order
from minimizer.engine.between.answer import Answer, Found
from minimizer.engine.budget.clock import Clock
from minimizer.engine.child.bounded import parse
from minimizer.engine.child.exact_log import ExactLog
from minimizer.engine.child.outcome import Verdict
from minimizer.engine.emit import Repro
from minimizer.engine.findings import Fault
from minimizer.engine.job import Job, Parts
from minimizer.engine.journal import Journal
from minimizer.engine.levels.draft import Draft
from minimizer.engine.oracle.signature import verdict_signature
from minimizer.engine.pipeline import see_graphs
from minimizer.engine.program.model import Program
from minimizer.engine.routes import Routes
from minimizer.engine.survey.cases import Case, Settled
from minimizer.engine.survey.triage import Triage
from minimizer.options import Options
from minimizer.report.culprit import Culprit
from minimizer.report.model import Failure, Reduction, Report, Verification
from minimizer.settings import Settings
from minimizer.sink import FolderSink
from minimizer.vocabulary import Kind, Reason, Status

HOLDS = Verification(runs=3, failed_same=3, clean_process=True, passes_with_compiler_off=True)
WRONG = {"fault": True, "kind": "wrong_output", "differences": [{"where": "output[0]", "what": "value"}]}
OF_GRAPH, BETWEEN = "# run python repro.py\ngraph()\n", "# run python repro.py\nbetween()\n"
GRAPH_CALLS = [[1], [2, 2, 4]]
"""Call 1 of graph 1 is made in the second outermost call, its call 2 in the fourth."""


class Held:
    is_open = True

    def close(self) -> None:
        self.is_open = False


def case_at(call: int) -> Case:
    verdict = parse(Verdict, WRONG)
    held = cast(Any, Held())
    return Case(held, Program((), (), ()), verdict_signature(verdict), "1 is 2", graph=1, call=call, verdict=verdict)


@pytest.fixture
def routes(tmp_path: Path) -> Iterator[Routes]:
    """A job whose fault between graphs is in the third call, and has a verified repro."""
    (tmp_path / "a.py").write_text("import torch\n")
    report = Report(
        status=Status.MINIMIZED,
        summary="between",
        failure=Failure(kind=Kind.WRONG_OUTPUT, message="lost", signature="between graphs", mechanism="lost_mutation"),
        culprits=[Culprit(what="a change of entries that is lost")],
        reduction=Reduction(lines_after=2),
        verification=HOLDS,
    )
    journal = Journal(FolderSink(tmp_path / "out"), report, Clock(600))
    journal.repro = BETWEEN
    journal.show("repro.py", BETWEEN.encode())
    journal.decide()
    none, script = cast(Any, None), tmp_path / "a.py"
    found = Found(none, 3, 3, none, ExactLog(graph_calls=GRAPH_CALLS), none)
    with ThreadPoolExecutor(1) as beside:
        triage = Triage(none, on_note=journal.note)
        job = Job(script, Options(), Settings(), journal, Path("python"))
        follow_up = FollowUp(script, none, none, journal, Options(), Settings())
        yield Routes(Parts(job, none, none, none, none, triage, follow_up, beside), Answer(found))


def seen(routes: Routes, monkeypatch: pytest.MonkeyPatch, case: Case, *, has_repro: bool = True) -> Report:
    """The report once the graph of this case was looked at."""

    def follow(routes: Routes, found: Case) -> Draft | Settled:
        if not has_repro:
            return Settled(Status.PARTIAL, Reason.NOT_VERIFIED, "")
        routes.journal.repro = OF_GRAPH
        routes.journal.show("repro.py", OF_GRAPH.encode())
        routes.journal.show("repro.zip", b"with its data")
        routes.journal.record(
            replace(
                routes.journal.fault,
                failure=Failure(kind=found.signature.kind, message=found.message, signature="in a graph"),
            )
        )
        routes.journal.record(replace(routes.journal.fault, culprits=(Culprit(ops=["aten.relu"], module="blocks.1"),)))
        routes.journal.record(
            replace(routes.journal.fault, reduction=Reduction(lines_after=9, nodes_after=1, one_minimal=True))
        )
        return Draft(Repro(source=OF_GRAPH, lines=9, kind=found.signature.kind, evidence=""), routes.journal.fault)

    def read_code(follow_up: FollowUp, draft: Draft) -> None:
        follow_up.journal.record(replace(follow_up.journal.fault, generated_code=sample_reports.kernel()))

    def verified(follow_up: FollowUp, draft: Draft) -> tuple[Verification, list[str], Draft]:
        return HOLDS, [], replace(draft, known=replace(draft.known, verification=HOLDS))

    def decide(follow_up: FollowUp, draft: Draft) -> Draft:
        known = replace(draft.known, status=Status.MINIMIZED, summary="graph")
        follow_up.journal.record(known)
        return replace(draft, known=known)

    monkeypatch.setattr(Triage, "run", lambda self: case)
    monkeypatch.setattr(Routes, "follow", follow)
    monkeypatch.setattr(FollowUp, "verified", verified)
    monkeypatch.setattr(FollowUp, "decide", decide)
    monkeypatch.setattr(FollowUp, "diagnose", lambda *_: None)
    monkeypatch.setattr(FollowUp, "read_code", read_code)
    see_graphs(found_by(routes), routes)
    assert not cast(Any, case.survey).is_open
    return routes.journal.report


def found_by(routes: Routes) -> Found:
    found = routes.exact.found
    assert found is not None
    return found


def files(routes: Routes) -> dict[str, str]:
    folder = routes.parts.job.script.parent / "out"
    return {path.name: path.read_text() for path in folder.glob("repro*.py")}


def test_a_graph_that_fails_later_stands_behind(routes: Routes, monkeypatch: pytest.MonkeyPatch) -> None:
    report = seen(routes, monkeypatch, case_at(2))

    assert (report.summary, report.failure and report.failure.signature) == ("between", "between graphs")
    assert files(routes) == {"repro.py": BETWEEN, "repro-2.py": OF_GRAPH.replace("repro.py", "repro-2.py")}
    assert (routes.parts.job.script.parent / "out" / "repro-2.zip").read_bytes() == b"with its data"
    assert [one.signature for one in report.also_seen] == ["in a graph"]
    assert (report.culprits[1].ops, report.culprits[1].what) == (["aten.relu"], "fails by itself too: repro-2.py")
    assert report.roots == report.culprits[:1] and report.culprits[1].repro == "repro-2.py"
    assert (report.generated_code, report.culprits[1].generated_code) == (None, sample_reports.kernel())


def test_the_second_fault_goes_by_the_clock_that_its_trials_go_by(
    routes: Routes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A reserve that only the record apart knew of kept no trial from using it up."""
    outer, spare = routes.journal.clock, []

    def follow(routes: Routes, found: Case) -> Settled:
        with routes.journal.clock.reserving(lambda: 40):
            spare.append(outer.left - outer.spare)
        return Settled(Status.PARTIAL, Reason.NOT_VERIFIED, "")

    monkeypatch.setattr(Triage, "run", lambda self: case_at(1))
    monkeypatch.setattr(Routes, "follow", follow)
    see_graphs(found_by(routes), routes)
    assert spare == [pytest.approx(40, abs=1)]


def test_a_graph_that_fails_earlier_is_the_job_s(routes: Routes, monkeypatch: pytest.MonkeyPatch) -> None:
    report = seen(routes, monkeypatch, case_at(1))

    assert (report.summary, report.failure and report.failure.signature) == ("graph", "in a graph")
    assert files(routes) == {"repro.py": OF_GRAPH, "repro-2.py": BETWEEN.replace("repro.py", "repro-2.py")}
    assert [one.signature for one in report.also_seen] == ["between graphs"]
    assert report.culprits[0].ops == ["aten.relu"]
    assert report.culprits[1].what == "a change of entries that is lost; fails by itself too: repro-2.py"
    assert report.roots == report.culprits[:1] and report.culprits[1].repro == "repro-2.py"
    assert (report.generated_code, report.culprits[1].generated_code) == (sample_reports.kernel(), None)
    assert routes.journal.repro == OF_GRAPH


def test_a_graph_s_repro_is_the_job_s_where_there_is_no_other(routes: Routes, monkeypatch: pytest.MonkeyPatch) -> None:
    routes.journal.record(replace(routes.journal.fault, verification=None, status=Status.PARTIAL))
    routes.journal.show_instead({})

    report = seen(routes, monkeypatch, case_at(2))

    assert (report.status, report.summary) == (Status.MINIMIZED, "graph")
    assert files(routes) == {"repro.py": OF_GRAPH}
    assert [one.signature for one in report.also_seen] == ["between graphs"]
    assert len(report.culprits) == 1


def test_a_graph_that_fails_without_a_repro_is_told(routes: Routes, monkeypatch: pytest.MonkeyPatch) -> None:
    report = seen(routes, monkeypatch, case_at(1), has_repro=False)

    assert (report.summary, files(routes)) == ("between", {"repro.py": BETWEEN})
    assert [one.message for one in report.also_seen] == ["1 is 2"]
    assert any("fails by itself too" in note for note in report.notes)


@pytest.mark.parametrize(
    ("holds", "call", "is_first"), [(True, 2, True), (True, 3, True), (True, 4, False), (True, None, False), (False, 2, False)]
)  # fmt: skip
def test_the_job_s_own_fault_is_the_one_that_the_script_reaches_first(
    holds: bool, call: int | None, is_first: bool
) -> None:
    """Of those with a verified repro; the other one is reached in the third call, and came later."""
    one = Reached(Fault(verification=HOLDS if holds else None), call, {})
    other = Reached(Fault(verification=HOLDS), 3, {})
    assert in_order((one, other)) == ([one, other] if is_first else [other, one])


def test_wrong_values_come_before_memory_that_an_earlier_call_shares() -> None:
    """An output that shared the memory of its input hid a call that returned what another dictionary had held."""
    values, sharing = (
        Reached(Fault(failure=Failure(kind=kind), verification=HOLDS), call, {})
        for kind, call in ((Kind.WRONG_OUTPUT, 2), (Kind.WRONG_METADATA, 1))
    )
    assert in_order((sharing, values)) == [values, sharing]


@pytest.mark.parametrize(
    ("graph", "call", "made_in"), [(0, 0, 1), (1, 2, 4), (1, 3, None), (2, 0, None), (None, 0, None)]
)
def test_the_outermost_call_of_a_graph_s_call(graph: int | None, call: int, made_in: int | None) -> None:
    assert ExactLog(graph_calls=GRAPH_CALLS).call_of(graph, call) == made_in


def test_what_is_healthy_beside_it_only_adds_what_was_compared(routes: Routes, monkeypatch: pytest.MonkeyPatch) -> None:
    checked = parse(type(Settled(Status.HEALTHY, None, "").checked), {"graphs": 2, "calls": 4})
    monkeypatch.setattr(Triage, "run", lambda self: replace(Settled(Status.HEALTHY, None, ""), checked=checked))
    see_graphs(found_by(routes), routes)
    report = routes.journal.report
    assert (report.status, report.also_seen, report.checked.calls) == (Status.MINIMIZED, [], 4)
