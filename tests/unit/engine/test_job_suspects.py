"""What comes of an attempt at a suspect: a draft, the next suspect or a verdict; and which of them is attempted first."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from sample_job import NONE, job_in, parts_of, routes_of

from minimizer.engine import pipeline
from minimizer.engine.advice import rules
from minimizer.engine.between.answer import NO_ANSWER, Answer, Found
from minimizer.engine.between.wrapper_effect import Effect, Side
from minimizer.engine.child import protocol
from minimizer.engine.child.bounded import parse
from minimizer.engine.child.compilations import Recompile, StackLine
from minimizer.engine.child.exact_log import Glance
from minimizer.engine.child.outcome import Verdict
from minimizer.engine.child.protocol import Health, Timed
from minimizer.engine.emit import Repro
from minimizer.engine.findings import UNKNOWN, Fault
from minimizer.engine.job import Job
from minimizer.engine.levels import exact as exact_level
from minimizer.engine.levels.draft import Draft
from minimizer.engine.levels.exact import BetweenGraphs
from minimizer.engine.levels.graph import Search
from minimizer.engine.levels.window import Unreduced
from minimizer.engine.oracle.signature import verdict_signature
from minimizer.engine.program.model import Program
from minimizer.engine.routes import Routes
from minimizer.engine.survey.cases import Case, Settled
from minimizer.engine.suspects import (
    FIRMER,
    NOT_FOUND,
    UNMEASURED,
    UNTIMED,
    Between,
    Costly,
    Graphs,
    Layout,
    OtherDraws,
    Unfirm,
    Unpublic,
    Untouched,
    Verified,
    order,
)
from minimizer.engine.verify.clean_runs import Run
from minimizer.errors import BudgetExceeded, Cancelled, ChildFailed
from minimizer.inside.questions import LEAST_TURNS
from minimizer.report.excused import excused
from minimizer.report.model import Failure, Reduction, Report, Verification
from minimizer.vocabulary import Kind, Reason, Stage, Status

HOLDS = Verification(runs=3, failed_same=3, clean_process=True, passes_with_compiler_off=True)
PASSES = Verification(runs=3, failed_same=0, clean_process=True, passes_with_compiler_off=True)
FLICKERS = Verification(runs=3, failed_same=1, clean_process=True, passes_with_compiler_off=True)
STRIDES = {
    "fault": True,
    "kind": "wrong_metadata",
    "differences": [{"where": "output", "kind": "wrong_metadata", "what": "stride"}],
}
WELL = Settled(Status.HEALTHY, None, "Healthy.")
RAISED = Settled(Status.PARTIAL, Reason.UNEXPLAINED, "It raises.", kind=Kind.RUNTIME_ERROR)
NOTHING = Settled(Status.FAILED, Reason.NOTHING_COMPILED, "Nothing was compiled.")
KNOWN = Failure(kind=Kind.WRONG_OUTPUT, stage=Stage.INDUCTOR, signature="sin")
DIFFERENCE = cast(Found, "what differs")


@pytest.fixture
def job(tmp_path: Path) -> Job:
    return job_in(tmp_path)


# the order ----------------------------------------------------------------------------------------------------------


def test_a_draft_comes_before_all_else_and_a_memory_layout_behind_it() -> None:
    costly = Costly(Kind.RECOMPILES, WELL)
    wait = [
        Unpublic(NONE),
        Unfirm(NONE, ()),
        Between(NONE, False),
        Graphs(),
        OtherDraws(NONE, WELL),
        costly,
        Untouched(WELL),
        Layout(NONE, WELL),
    ]
    assert all(order(one) < order(behind) for one, behind in pairwise(wait))


@pytest.mark.parametrize(("end", "left"), [(None, 0), (WELL, 1)])
def test_the_graphs_wait_behind_a_fault_between_them(
    job: Job, monkeypatch: pytest.MonkeyPatch, end: Settled | None, left: int
) -> None:
    """They are attempted where nothing is left of it."""
    monkeypatch.setattr(Between, "attempt", lambda *_: end)
    monkeypatch.setattr(Graphs, "attempt", lambda *_: WELL)
    queue = [Between(DIFFERENCE, is_checked=False), Graphs()]
    assert pipeline.reach(cast(Any, queue), routes_of(job)) is WELL
    assert len(queue) == left


# drafts -------------------------------------------------------------------------------------------------------------


def draft_of(nodes: int, *, lines: int = 9) -> Draft:
    """The draft of a graph that was reduced by a search, named by its nodes."""
    found = cast(Any, SimpleNamespace(case=None, oracle=None, reduced=None, nodes=nodes))
    repro = Repro(source=f"# {nodes} nodes\n", lines=lines, kind=Kind.WRONG_OUTPUT, evidence="")
    reduction = Reduction(nodes_before=9, nodes_after=nodes, one_minimal=True)
    return Draft(repro, Fault(failure=KNOWN, reduction=reduction), found=found, way=cast(Any, "its way"))


class Reduced:
    """The ways to a repro and the clean runs of a job; a search that reduces less far comes to ``firm``."""

    is_beside = False

    def __init__(self, firm: Draft | Exception | None, *seen: Verification) -> None:
        self._firm, self._seen = firm, [*seen]

    @property
    def graphs(self) -> Reduced:
        return self

    def firmer(self, draft: object, fails: object) -> Draft | None:
        self.journal.record(replace(self.journal.fault, reduction=Reduction(nodes_after=5)))
        if isinstance(self._firm, Exception):
            raise self._firm
        return self._firm

    def runs(self, *_: object, on_odd: Any, **__: object) -> Verification:
        seen = self._seen.pop(0)
        if not seen.holds:
            on_odd(Run(0, "", 1.0), f"{seen.failed_same} of 3 failed")
        return seen

    def reach(self, job: Job, monkeypatch: pytest.MonkeyPatch, draft: Draft) -> Draft:
        """The draft that a job ends with."""
        self.journal = job.journal
        monkeypatch.setattr("minimizer.engine.verify.clean_runs.verify", self.runs)
        monkeypatch.setattr(Graphs, "attempt", lambda *_: draft)
        parts = parts_of(job)
        place = cast(Any, SimpleNamespace(sandbox=None, python=None, packages=(), headers=None, private=lambda _: None))
        self.parts = replace(parts, follow_up=replace(parts.follow_up, place=place))
        end = pipeline.reach([Graphs()], cast(Any, self))
        assert isinstance(end, Verified)
        return end.draft


def test_what_fails_in_trials_only_gives_way_to_what_fails_by_itself(job: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    firm = draft_of(5)
    assert Reduced(firm, PASSES, HOLDS).reach(job, monkeypatch, draft_of(1)).repro is firm.repro
    assert job.report.status is Status.MINIMIZED
    assert job.report.reduction == Reduction(nodes_before=9, nodes_after=5, lines_after=9, one_minimal=True)
    assert job.report.notes == [FIRMER]


@pytest.mark.parametrize("further", [draft_of(5), None, BudgetExceeded("over"), ChildFailed("gone")])
def test_without_one_the_first_draft_stays(job: Job, monkeypatch: pytest.MonkeyPatch, further: Any) -> None:
    first = draft_of(1)
    assert Reduced(further, PASSES, PASSES).reach(job, monkeypatch, first).repro is first.repro
    assert (job.report.status, job.report.reason) == (Status.PARTIAL, Reason.NOT_VERIFIED)
    assert (job.report.reduction, job.report.verification) == (
        Reduction(nodes_before=9, nodes_after=1, lines_after=9, one_minimal=True),
        PASSES,
    )
    assert (job.report.notes, job.journal.repro) == (["0 of 3 failed"], first.repro.source)


def test_a_search_for_one_that_the_owner_stops_leaves_the_first_draft(
    job: Job, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = draft_of(1)
    with pytest.raises(Cancelled):
        Reduced(Cancelled("enough"), PASSES).reach(job, monkeypatch, first)
    assert job.report.reduction is not None and job.report.reduction.nodes_after == 1
    assert (job.report.verification, job.journal.repro) == (PASSES, first.repro.source)


@pytest.mark.parametrize("seen", [HOLDS, FLICKERS])
def test_what_fails_now_and_then_is_no_matter_of_memory(
    job: Job, monkeypatch: pytest.MonkeyPatch, seen: Verification
) -> None:
    first = draft_of(1)
    assert Reduced(draft_of(5), seen).reach(job, monkeypatch, first).repro is first.repro


def in_public(job: Job, monkeypatch: pytest.MonkeyPatch, script: Repro | Exception | None) -> Draft:
    """What comes of a graph's draft of nine lines where the script level comes to this, and says its own of the failure."""

    def by_script(routes: Routes, otherwise: Settled) -> Draft | None:
        another = Failure(kind=Kind.RUNTIME_ERROR, signature="another")
        of_script = Fault(failure=another, reduction=Reduction(level="python", lines_after=3))
        routes.journal.record(of_script)
        if isinstance(script, Exception):
            raise script
        return Draft(script, of_script) if script is not None else None

    monkeypatch.setattr(Routes, "by_script", by_script)
    end = Unpublic(draft_of(2)).attempt(routes_of(job))
    assert end.fault.failure == KNOWN
    return end


@pytest.mark.parametrize("error", [BudgetExceeded("over"), ChildFailed("gone"), Cancelled("enough"), None])
def test_a_repro_is_not_lost_to_the_attempt_at_a_nicer_one(
    job: Job, monkeypatch: pytest.MonkeyPatch, error: Exception | None
) -> None:
    if isinstance(error, Cancelled):
        with pytest.raises(Cancelled):
            in_public(job, monkeypatch, error)
    else:
        assert in_public(job, monkeypatch, error).repro.source == "# 2 nodes\n"
    assert job.report.failure == KNOWN
    assert job.report.reduction == Reduction(nodes_before=9, nodes_after=2, lines_after=9, one_minimal=True)
    assert job.journal.repro == "# 2 nodes\n"


@pytest.mark.parametrize(
    ("lines", "kind", "is_better"),
    [(9, Kind.WRONG_OUTPUT, True), (10, Kind.WRONG_OUTPUT, False), (3, Kind.CRASH, False)],
)
def test_the_script_stands_for_a_graph_that_is_not_public_where_it_is_no_longer(
    job: Job, monkeypatch: pytest.MonkeyPatch, lines: int, kind: Kind, is_better: bool
) -> None:
    script = Repro(source="# the script\n", lines=lines, kind=kind, evidence="")
    end = in_public(job, monkeypatch, script)
    assert (end.repro is script, end.way is None) == (is_better, is_better)
    assert end.found is not None, "the graph is to blame all the same"
    level = "python" if is_better else "dynamo"
    assert (end.fault.reduced.level, end.fault.reduced.nodes_after) == (level, 2)


# memory layouts, and what comes before them -------------------------------------------------------------------------


class Layouts:
    """A triage of a script of which nothing is wrong but a memory layout; keeps the verdict that it is asked against."""

    layouts = ("a call",)
    against: Settled | None = None
    surveys = SimpleNamespace(rate=None)

    def run(self) -> Settled:
        return WELL

    def held_for_layout(self, seen: object, otherwise: Settled) -> Case:
        self.against = otherwise
        verdict = parse(Verdict, STRIDES)
        held = cast(Any, SimpleNamespace(close=lambda: None))
        return Case(held, Program((), (), ()), verdict_signature(verdict), "differs", verdict=verdict)


def ended_by(
    job: Job, monkeypatch: pytest.MonkeyPatch, plain: Settled, end: Exception, exact: Answer = NO_ANSWER
) -> tuple[Report, Layouts]:
    """The report of a job whose search for a layout ends so, and whose plain runs come to this verdict."""
    layouts = Layouts()

    def give_up(*_: object) -> None:
        raise end

    monkeypatch.setattr(Search, "run", give_up)
    monkeypatch.setattr(Routes, "by_script", lambda *_: None)
    monkeypatch.setattr("minimizer.engine.suspects.verdict_by", lambda *_: plain)
    runs = SimpleNamespace(pair=lambda: (None, None), attempts=[])
    with ThreadPoolExecutor(1) as beside:
        judge = SimpleNamespace(judge=lambda *_, **__: None)
        routes = routes_of(job, exact, executor=judge, triage=layouts, plain=runs, beside=beside)
        found = pipeline.reach([Graphs()], routes)
    assert isinstance(found, Settled)
    pipeline.conclude(
        found,
        NO_ANSWER,
        replace(routes.parts, job=replace(job, options=job.options.model_copy(update={"diagnosis": False}))),
    )
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


def test_another_memory_layout_whose_graph_cannot_be_had_is_partial(job: Job) -> None:
    routes = routes_of(job, triage=SimpleNamespace(held_for_layout=lambda *_: None))
    found = Layout(NONE, WELL).attempt(routes)
    assert isinstance(found, Settled)
    assert (found.status, found.reason, found.kind) == (Status.PARTIAL, Reason.NOT_VERIFIED, Kind.WRONG_METADATA)
    assert found.layout_only


@pytest.mark.parametrize(
    ("verdict", "layouts", "is_suspected"),
    [
        (WELL, ("a call",), True),
        (replace(WELL, status=Status.PARTIAL), ("a call",), True),
        (WELL, (), False),
        (RAISED, ("a call",), False),
        (replace(WELL, status=Status.FAILED), ("a call",), False),
    ],
)
def test_a_failure_ranks_above_another_memory_layout(
    job: Job, monkeypatch: pytest.MonkeyPatch, verdict: Settled, layouts: tuple[str, ...], is_suspected: bool
) -> None:
    monkeypatch.setattr("minimizer.engine.suspects.verdict_by", lambda *_: verdict)
    monkeypatch.setattr(Routes, "by_script", lambda *_: None)
    runs = SimpleNamespace(pair=lambda: (None, None), attempts=[])
    end = Untouched(WELL).attempt(routes_of(job, plain=runs, triage=SimpleNamespace(layouts=layouts)))
    assert end == (Layout(cast(Any, "a call"), verdict) if is_suspected else verdict)


def test_another_memory_layout_hides_nothing_that_plain_runs_show(job: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    report, layouts = ended_by(job, monkeypatch, replace(RAISED, kind=None), Unreduced(WELL))
    assert layouts.against is not None and layouts.against.reason is Reason.UNEXPLAINED
    report, layouts = ended_by(job, monkeypatch, RAISED, Unreduced(WELL))
    assert layouts.against is None
    assert (report.reason, report.failure and report.failure.layout_only) == (Reason.UNEXPLAINED, False)


@pytest.mark.parametrize("plain", [WELL, RAISED])
def test_what_plain_runs_show_comes_before_an_effect_of_the_wrapper(
    job: Job, monkeypatch: pytest.MonkeyPatch, plain: Settled
) -> None:
    """And what they excuse, or do not know, stays in the verdict."""
    told = excused("plain_runs_unknown", "it took too long")
    effect = replace(WELL, status=Status.FAILED, reason=Reason.WRAPPER_EFFECT, summary="Line 1.")
    monkeypatch.setattr(BetweenGraphs, "past_wrappers", lambda *_: effect)
    report, layouts = ended_by(job, monkeypatch, replace(plain, excused=(told,)), Cancelled(), Answer(looks=6))
    assert report.reason is (plain.reason or Reason.WRAPPER_EFFECT)
    assert told in report.checked.excused
    assert layouts.against is None


# between graphs -----------------------------------------------------------------------------------------------------


def reduced(
    job: Job, monkeypatch: pytest.MonkeyPatch, draft: Any, *, is_checked: bool = False, mechanism: Any = "lost_mutation"
) -> Draft | Settled | None:
    """What comes of a difference that is announced, and whose reduction ends so."""

    def announced(between: BetweenGraphs, found: object, known: Fault, *, reduces: bool) -> Draft | None:
        assert reduces == job.options.stands_alone
        failure = Failure(kind=Kind.WRONG_OUTPUT, message="It differs.", mechanism=mechanism)
        job.journal.record(replace(job.journal.fault, failure=failure))
        if isinstance(draft, Exception):
            raise draft
        return cast(Draft | None, draft)

    monkeypatch.setattr(BetweenGraphs, "draft", announced)
    return Between(DIFFERENCE, is_checked).attempt(routes_of(job))


@pytest.mark.parametrize("draft", [None, Draft(NONE, UNKNOWN, difference=DIFFERENCE)])
def test_a_fault_between_graphs_without_a_repro_is_partial(
    job: Job, monkeypatch: pytest.MonkeyPatch, draft: Draft | None
) -> None:
    """And has its workaround at once; with a repro, one is looked for when that is verified."""
    asked: list[Any] = []
    monkeypatch.setattr(BetweenGraphs, "workaround", lambda self, found, mechanism: asked.append(found))
    found = reduced(job, monkeypatch, draft)
    if draft is not None:
        assert (found, asked) == (draft, [])
        return
    assert asked == [DIFFERENCE]
    assert isinstance(found, Settled)
    pipeline.conclude(found, NO_ANSWER, parts_of(job))
    assert (job.report.status, job.report.reason) == (Status.PARTIAL, Reason.NOT_VERIFIED)
    assert job.report.failure is not None, "what was announced stays"


def test_a_script_whose_own_check_fails_is_reduced_by_that_where_nothing_else_can_be_asserted(
    job: Job, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert reduced(job, monkeypatch, None, is_checked=True) is None
    assert job.report.failure is None


@pytest.mark.parametrize("mechanism", ["lost_mutation", None])
def test_a_child_that_goes_away_takes_no_confirmed_failure_with_it(
    job: Job, monkeypatch: pytest.MonkeyPatch, mechanism: Any
) -> None:
    """The graphs are looked at all the same; a workaround needs to know how the failure came about."""
    if mechanism is not None:
        monkeypatch.setattr(BetweenGraphs, "workaround", lambda *_: None)
    found = reduced(job, monkeypatch, ChildFailed("the child is gone"), mechanism=mechanism)
    assert isinstance(found, Settled)
    assert (found.status, found.reason) == (Status.PARTIAL, Reason.NOT_VERIFIED)
    assert found.summary.startswith("It differs.")


# wrappers -----------------------------------------------------------------------------------------------------------


def past_wrappers(
    job: Job, monkeypatch: pytest.MonkeyPatch, found: Settled = WELL, exact: Answer | None = None
) -> Settled:
    """The verdict on a script that plain runs leave as it was ``found``."""
    monkeypatch.setattr("minimizer.engine.suspects.verdict_by", lambda *_: found)
    runs = SimpleNamespace(pair=lambda: (None, None), attempts=[])
    routes = routes_of(job, exact or Answer(looks=6), plain=runs, triage=SimpleNamespace(layouts=()))
    end = Untouched(found).attempt(routes)
    assert isinstance(end, Settled)
    return end


def test_a_healthy_script_that_looks_at_the_wrapper_is_told_so(job: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    effect = Effect("net.steps", Side("5", "0"), Glance(key="k", sort="is_compiling", line=1))
    monkeypatch.setattr(exact_level, "wrapper_effect", lambda runs, text: effect)
    found = past_wrappers(job, monkeypatch)
    assert (found.status, found.reason) == (Status.FAILED, Reason.WRAPPER_EFFECT)
    assert "net.steps is 0, and 5 without torch.compile" in found.summary


@pytest.mark.parametrize(
    ("found", "answer"),
    [(WELL, NO_ANSWER), (Settled(Status.FAILED, Reason.FAILS_IN_EAGER, "It fails."), Answer(looks=6))],
)
def test_wrappers_are_asked_for_only_where_all_else_is_healthy_and_was_compared(
    job: Job, monkeypatch: pytest.MonkeyPatch, found: Settled, answer: Answer
) -> None:
    monkeypatch.setattr(exact_level, "wrapper_effect", lambda runs, text: pytest.fail("asked"))
    assert past_wrappers(job, monkeypatch, found, answer) is found


@pytest.mark.parametrize("error", [ChildFailed("gone"), BudgetExceeded("the time is over")])
def test_a_healthy_verdict_outlives_runs_without_wrappers_that_come_to_nothing(
    job: Job, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    def fail(runs: object, text: str) -> None:
        raise error

    monkeypatch.setattr(exact_level, "wrapper_effect", fail)
    assert past_wrappers(job, monkeypatch).status is Status.HEALTHY


# a finding that was asked for ----------------------------------------------------------------------------------------


def asking(job: Job, expect: str, **changes: Any) -> Job:
    return replace(job, options=job.options.model_copy(update={"expect": expect, **changes}))


@pytest.mark.parametrize(
    ("expect", "settled", "then"),
    [
        ("recompiles", WELL, Costly),
        ("graph-break", WELL, Costly),
        ("auto", WELL, Untouched),
        ("recompiles", RAISED, Settled),  # a failure comes before a finding
        ("graph-break", NOTHING, Costly),  # a break in a loop keeps a function in eager as a whole
        ("auto", NOTHING, Settled),
    ],
)
def test_a_finding_is_looked_for_where_it_was_asked_for_and_nothing_fails(
    job: Job, monkeypatch: pytest.MonkeyPatch, expect: str, settled: Settled, then: type
) -> None:
    monkeypatch.setattr(Graphs, "_survey", lambda *_: settled)
    triage = SimpleNamespace(layouts=())
    assert type(Graphs().attempt(routes_of(asking(job, expect), triage=triage))) is then


DRAWN = protocol.OtherDraws(graph=1, node="rand_like", what="torch.rand_like draws the same numbers in each run")
DRAWS = Settled(Status.PARTIAL, Reason.UNEXPLAINED, "It draws otherwise.", kind=Kind.WRONG_OUTPUT, draws=DRAWN)


def test_an_operator_that_draws_otherwise_is_the_next_suspect(job: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Graphs, "_survey", lambda *_: DRAWS)
    assert Graphs().attempt(routes_of(job)) == OtherDraws(DRAWN, DRAWS)


def test_an_operator_that_draws_otherwise_is_told_where_its_graph_cannot_be_held(job: Job) -> None:
    triage = SimpleNamespace(held_first=lambda graph, signature: None)
    end = OtherDraws(DRAWN, DRAWS).attempt(routes_of(job, triage=triage))
    assert isinstance(end, Settled) and (end.status, end.reason) == (Status.PARTIAL, Reason.UNEXPLAINED)
    failure = job.journal.fault.announced
    assert (failure.kind, failure.stage) == (Kind.WRONG_OUTPUT, Stage.INDUCTOR)
    assert failure.message == "Inductor's own torch.rand_like draws the same numbers in each run"


def test_nothing_compiled_stays_the_verdict_where_no_finding_is_the_reason(job: Job) -> None:
    surveys = SimpleNamespace(first=Health())
    assert Costly(Kind.GRAPH_BREAK, NOTHING).attempt(routes_of(job, surveys=surveys)) is NOTHING


RECOMPILED = [
    Recompile(
        function="step",
        frame="0",
        guard=f"0/{size}: tensor 'x' size mismatch at index 0. expected {size}, actual {size + 1}",
        stack=[StackLine(file="a.py", line=3, code="def step(x):")],
        seconds=1.0,
    )
    for size in range(3)
]


@pytest.mark.parametrize(("recompiled", "kind"), [(RECOMPILED[:2], Kind.RECOMPILES), (RECOMPILED, Kind.GRAPH_BREAK)])
def test_a_script_without_the_finding_is_told_so_once_plain_runs_agree(
    job: Job, recompiled: list[Recompile], kind: Kind
) -> None:
    surveys = SimpleNamespace(first=Health(recompiled=recompiled))
    end = Costly(kind, WELL).attempt(routes_of(job, surveys=surveys))
    assert isinstance(end, Untouched)
    assert end.verdict.status is Status.HEALTHY and end.verdict.summary == f"{NOT_FOUND[kind]} Healthy."


def test_a_script_that_was_not_measured_is_not_said_to_have_no_finding(job: Job) -> None:
    end = Costly(Kind.RECOMPILES, WELL).attempt(routes_of(job, surveys=SimpleNamespace(first=None)))
    assert isinstance(end, Settled) and (end.status, end.reason) == (Status.PARTIAL, Reason.NOT_VERIFIED)
    assert "not known" in end.summary and NOT_FOUND[Kind.RECOMPILES] not in end.summary


def timed(turns: int) -> Timed:
    """A graph that is as fast as in eager."""
    place = StackLine(file="a.py", line=3, code="def step(x):")
    return Timed(place=place, turns=turns, eager=1.0, compiled=1.0, eager_slow=1.0, compiled_fast=1.0)


@pytest.mark.parametrize(
    ("kind", "health", "says"),
    [
        (Kind.SLOW, None, UNMEASURED),
        (Kind.SLOW, Health(untimed="other processes used the cores"), f"{UNTIMED}: other processes used the cores. "),
        (Kind.MEMORY, Health(untimed="other processes used the cores"), NOT_FOUND[Kind.MEMORY]),
        (Kind.SLOW, Health(timed=[timed(LEAST_TURNS - 1)]), f"{UNTIMED}: {rules.CROWDED}. "),
        (Kind.SLOW, Health(timed=[timed(LEAST_TURNS)]), NOT_FOUND[Kind.SLOW]),
        (Kind.SLOW, Health(), NOT_FOUND[Kind.SLOW]),
    ],
)
def test_a_figure_is_measured_in_a_run_of_its_own(job: Job, kind: Kind, health: Health | None, says: str) -> None:
    surveys = SimpleNamespace(costs=lambda: health, crowding=1.0)
    end = Costly(kind, WELL).attempt(routes_of(job, surveys=surveys))
    verdict = end.verdict if isinstance(end, Untouched) else end
    assert isinstance(verdict, Settled) and verdict.summary.startswith(says)
    assert (verdict.status is Status.HEALTHY) is says.startswith("No compiled graph")


def test_a_finding_of_several_processes_is_told_and_has_no_repro(job: Job) -> None:
    job, surveys = asking(job, "recompiles", nproc=2), SimpleNamespace(first=Health(recompiled=RECOMPILED))
    end = Costly(Kind.RECOMPILES, WELL).attempt(routes_of(job, surveys=surveys))
    assert isinstance(end, Settled) and (end.status, end.reason) == (Status.PARTIAL, Reason.NOT_VERIFIED)
    failure, (culprit,) = job.journal.fault.announced, job.journal.fault.culprits
    assert (failure.kind, failure.stage) == (Kind.RECOMPILES, Stage.DYNAMO)
    assert (culprit.what, culprit.source and culprit.source.line) == ("the size of `x` changes in dimension 0", 3)
    assert end.summary.startswith(failure.message)
