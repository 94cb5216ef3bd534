"""The ways from a failure to a repro: which are tried, in which order, and what is left where one comes to no end."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path
from threading import Event
from typing import Any, cast

import pytest
from healthy_verdict import COMPARED, is_sure, report_of, says_open
from sample_job import job_in, routes_of

from minimizer.engine.after.follow_up import FollowUp
from minimizer.engine.between import answer as answers
from minimizer.engine.child import protocol
from minimizer.engine.child.bounded import parse
from minimizer.engine.child.outcome import Outcome
from minimizer.engine.child.traced import Parting, Sides
from minimizer.engine.findings import UNKNOWN, Fault
from minimizer.engine.levels import calls
from minimizer.engine.levels.draft import Draft
from minimizer.engine.levels.graph import pin
from minimizer.engine.levels.missing_error import MissingErrorLevel
from minimizer.engine.levels.outer import OuterLevel
from minimizer.engine.levels.parting import Compared, PartingLevel
from minimizer.engine.levels.window import Unreduced, accepted
from minimizer.engine.localize.behind_jumps import Answer
from minimizer.engine.localize.localize import Localized
from minimizer.engine.oracle.oracle import Measured, Oracle
from minimizer.engine.oracle.signature import Signature, signature_of
from minimizer.engine.outer import program as outer
from minimizer.engine.outer.program import OuterProgram
from minimizer.engine.program.arguments import Ref
from minimizer.engine.program.model import Input, Node, Program, TensorMeta
from minimizer.engine.program.regions import Region
from minimizer.engine.reduce.python import Rerun
from minimizer.engine.routes import Routes, unanswered
from minimizer.engine.survey.cases import Cache, Case, ScriptCase, Settled
from minimizer.engine.survey.plain_rerun import PlainRerun
from minimizer.engine.survey.plain_runs import PlainRuns
from minimizer.engine.survey.verdicts import unexamined
from minimizer.errors import BudgetExceeded, Cancelled, ChildFailed
from minimizer.options import Options
from minimizer.report.examined import Attempt
from minimizer.report.model import AlsoSeen, Reproducibility
from minimizer.vocabulary import Kind, Reason, Stage, Status


@pytest.fixture
def routes(tmp_path: Path) -> Iterator[Routes]:
    with ThreadPoolExecutor(1) as beside:
        yield routes_of(job_in(tmp_path), triage=Suspects(), beside=beside)


def give(routes: Routes, triage: Any) -> None:
    """Let the surveys of the script be judged by this."""
    routes.parts = replace(routes.parts, triage=triage)


def wrong(*whats: str) -> Outcome:
    differences = [{"where": "output[0]", "kind": "wrong_output", "what": what} for what in whats]
    return parse(
        Outcome,
        {"ending": "different", "verdict": {"fault": True, "kind": "wrong_output", "differences": differences}},
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
    monkeypatch: pytest.MonkeyPatch, script: list[str], window: list[str], pinned: bool
) -> None:
    signature = signature_of(wrong(*script))
    assert signature is not None
    oracle = Oracle(cast(Any, None), cast(Any, None), accepted(signature))
    monkeypatch.setattr(oracle, "judge", lambda programs: [wrong(*window)])
    pin(oracle, signature, suspect().program)
    assert oracle.shows(wrong("value")) is not pinned
    assert oracle.shows(wrong("value", "inf"))


def suspect() -> Case:
    """A call whose values differ behind a jump, of a script that is healthy if that is rounding."""
    x = Input("x", TensorMeta((2,), "torch.float32", (1,)), code="torch.ones(2)")
    program = Program((x,), (Node("y", ".argmax", (Ref("x"),)),), ("y",))
    healthy = Settled(Status.HEALTHY, None, "Healthy.")
    return Case(cast(Any, Holder()), program, Signature(Kind.WRONG_OUTPUT), "differs", otherwise=healthy)


def whole(cut: str = "", kind: str = outer.GRAPH) -> OuterProgram:
    """A program around the graphs, whose events are all of one kind."""
    event = outer.Event("f(x)", kind, frozenset(), (), (), (), (), "", None, draws=False)
    return OuterProgram({}, [event] * 3, {}, {}, cut=cut)


class Holder:
    """The survey of a held call."""

    is_open = True

    def close(self) -> None:
        self.is_open = False


class Suspects:
    """A triage with some suspects left."""

    def __init__(self, *left: Case) -> None:
        self._left, self.otherwise = list(left), Settled(Status.HEALTHY, None, "Healthy.")
        self.surveys = self.suspects = self

    def rate(self, case: Case, seen: Reproducibility, enough: int, over: Event) -> Reproducibility:
        return Reproducibility(failed=enough, runs=enough)

    def hold_next(self) -> Case | None:
        return self._left.pop(0) if self._left else None

    def leave_open(self) -> None:
        self.otherwise = unexamined(self.otherwise)


@pytest.mark.parametrize("error", [BudgetExceeded("over"), ChildFailed("gone"), Cancelled("enough")])
def test_a_suspect_that_nobody_could_confirm_is_no_failure(
    routes: Routes, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    def give_up(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr("minimizer.engine.levels.window.first_wrong", give_up)
    with pytest.raises(type(error)):
        routes.by_graph(suspect())
    assert routes.journal.report.failure is None


def cannot_be_traced(case: Case) -> Program:
    raise ChildFailed("no")


def test_a_suspect_that_cannot_be_taken_apart_leaves_the_question_open(
    routes: Routes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where a later one turns out to be rounding."""
    answers = [Answer(unasked=(Region(0, 1),)), Answer()]

    def ask(*_: object, **__: object) -> Answer:
        return answers.pop(0)

    monkeypatch.setattr("minimizer.engine.levels.window.first_wrong", ask)
    monkeypatch.setattr(Case, "lowered", cannot_be_traced)
    first, second = suspect(), suspect()
    give(routes, Suspects(second))
    with pytest.raises(Unreduced) as end:
        routes.by_graph(first)
    assert not first.survey.is_open and not second.survey.is_open  # type: ignore[attr-defined]
    assert (end.value.settled.status, end.value.settled.reason) == (Status.PARTIAL, Reason.NOT_VERIFIED)
    assert not answers


@pytest.mark.parametrize(
    ("call", "said"), [(1, "Call 2 of a graph fails"), (0, "observing it makes the failure vanish")]
)
def test_a_graph_that_passes_by_itself_is_not_reduced(
    routes: Routes, monkeypatch: pytest.MonkeyPatch, call: int, said: str
) -> None:
    """One that failed at a later call may need what the earlier ones have left behind."""
    nowhere = Localized(suspect().program, (), (), confirmed=False)
    monkeypatch.setattr("minimizer.engine.levels.window.localize", lambda *_, **__: nowhere)
    monkeypatch.setattr(Oracle, "measure", lambda *_: Measured(wrong("value"), Reproducibility(failed=0, runs=1)))
    monkeypatch.setattr(Case, "lowered", cannot_be_traced)
    case = replace(suspect(), otherwise=None, call=call)
    with pytest.raises(Unreduced) as end:
        routes.by_graph(case)
    assert (end.value.settled.status, end.value.settled.reason) == (Status.PARTIAL, Reason.NOT_VERIFIED)
    assert said in end.value.settled.summary


def test_a_graph_whose_holder_is_gone_leaves_the_question_open() -> None:
    gone = ChildFailed("the holder of the graph is gone")
    mere_suspect = unanswered(gone, suspect())
    failure = unanswered(gone, replace(suspect(), otherwise=None))
    assert [(s.status, s.reason) for s in (mere_suspect, failure)] == [(Status.PARTIAL, Reason.NOT_VERIFIED)] * 2
    assert "may be legal rounding" in mere_suspect.summary and "The script fails" in failure.summary


GIVEN_UP = Settled(Status.PARTIAL, Reason.NOT_VERIFIED, "It vanishes.")
DRAFT = Draft(cast(Any, "repro"), UNKNOWN)


class Graphs:
    """A triage of a script with several failing graphs; keeps which are passed by."""

    def __init__(self, *following: Case) -> None:
        self._following, self.passed_by = [*following], list[int]()

    def without(self, graphs: list[int]) -> Case | Settled:
        self.passed_by = [*graphs]
        return self._following.pop(0) if self._following else Settled(Status.HEALTHY, None, "No other.")


def failing(graph: int, call: int) -> Case:
    return replace(suspect(), otherwise=None, graph=graph, call=call)


def words(routes: Routes) -> list[tuple[str, str]]:
    return [(attempt.what, attempt.outcome) for attempt in routes.journal.report.attempts]


def leads(routes: Routes, monkeypatch: pytest.MonkeyPatch, **ends: object) -> None:
    """Let routes end so: a draft, a verdict, or None."""
    for name in ("by_graph", "by_parting", "by_sequence", "by_outer", "by_script"):
        owner = routes.calls if name == "by_sequence" else routes
        monkeypatch.setattr(owner, name, partial(answered, ends.get(name)))


def answered(end: object, *_: object) -> object:
    if isinstance(end, Settled):
        raise Unreduced(end)
    return end


def test_every_route_is_tried_before_a_failure_is_given_up(routes: Routes, monkeypatch: pytest.MonkeyPatch) -> None:
    give(routes, Graphs(failing(2, 0)))
    leads(routes, monkeypatch, by_graph=GIVEN_UP)
    assert routes.follow(failing(0, 1)) is GIVEN_UP
    assert words(routes) == [
        ("graph 0, with the exact inputs of its call 2", "no repro"),
        ("the program around the graphs, side by side", "no repro"),
        ("graph 0, with the calls that led to its call 2", "no repro"),
        ("the other graphs of the run", "another failing call"),
        ("graph 2, with the exact inputs of its call 1", "no repro"),
        ("the other graphs of the run", "no repro"),
        ("the script at the Python level", "no repro"),
    ]
    assert cast(Any, routes.parts.triage).passed_by == [0, 2]


def test_a_graph_that_fails_in_every_run_is_tried_once(routes: Routes, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that does not compile ends every run, also those that are to pass it by."""
    holder = Holder()
    give(routes, Graphs(replace(failing(0, 0), survey=cast(Any, holder))))
    leads(routes, monkeypatch, by_graph=GIVEN_UP)
    assert routes.follow(failing(0, 0)) is GIVEN_UP
    assert words(routes) == [
        ("graph 0, with the exact inputs of its call 1", "no repro"),
        ("the program around the graphs, side by side", "no repro"),
        ("the other graphs of the run", "no repro"),
        ("the script at the Python level", "no repro"),
    ]
    assert not holder.is_open


@pytest.mark.parametrize(
    ("ends", "last"),
    [
        ({"by_graph": DRAFT}, "graph 0, with the exact inputs of its call 2"),
        (
            {"by_graph": GIVEN_UP, "by_sequence": DRAFT},
            "graph 0, with the calls that led to its call 2",
        ),
        ({"by_graph": GIVEN_UP, "by_script": DRAFT}, "the script at the Python level"),
    ],
    ids=["graph", "sequence", "script"],
)
def test_first_route_with_a_repro_is_the_last_that_is_taken(
    routes: Routes, monkeypatch: pytest.MonkeyPatch, ends: dict[str, object], last: str
) -> None:
    give(routes, Graphs())
    leads(routes, monkeypatch, **ends)
    assert routes.follow(failing(0, 1)) is DRAFT
    assert words(routes)[-1] == (last, "a repro")


def test_failure_that_eager_does_not_repeat_is_no_matter_for_other_routes(
    routes: Routes, monkeypatch: pytest.MonkeyPatch
) -> None:
    unsteady = Settled(Status.FAILED, Reason.NONDETERMINISTIC, "Eager differs from eager.")
    leads(routes, monkeypatch, by_graph=unsteady, by_script=DRAFT)
    assert routes.follow(failing(0, 1)) is unsteady
    assert len(words(routes)) == 1


def test_script_whose_failure_no_graph_carries_is_reduced_itself(
    routes: Routes, monkeypatch: pytest.MonkeyPatch
) -> None:
    leads(routes, monkeypatch, by_script=DRAFT)
    assert routes.follow(ScriptCase(GIVEN_UP)) is DRAFT


@pytest.mark.parametrize("kind", [Kind.RUNTIME_ERROR, Kind.COMPILE_ERROR, Kind.WRONG_OUTPUT])
def test_calls_around_graphs_are_asked_first_for_what_raises(
    routes: Routes, monkeypatch: pytest.MonkeyPatch, kind: Kind
) -> None:
    leads(routes, monkeypatch, by_outer=DRAFT, by_script=None)
    verdict = replace(GIVEN_UP, kind=kind)
    assert routes.follow(ScriptCase(verdict)) is (verdict if kind is Kind.WRONG_OUTPUT else DRAFT)


@pytest.mark.parametrize("reason", [Reason.NOT_VERIFIED, Reason.DISPUTED])
@pytest.mark.parametrize("kind", [Kind.WRONG_OUTPUT, Kind.WRONG_GRADIENT])
def test_values_that_no_graph_shows_are_looked_for_side_by_side(
    routes: Routes, monkeypatch: pytest.MonkeyPatch, kind: Kind, reason: Reason
) -> None:
    leads(routes, monkeypatch, by_parting=DRAFT, by_script=None)
    assert routes.follow(ScriptCase(replace(GIVEN_UP, kind=kind, reason=reason))) is DRAFT
    assert words(routes) == [("the program around the graphs, side by side", "a repro")]


WROTE_OVER = "call 1 of graph 1 writes over output 0 of call 0 of graph 0, which the script still holds"
OVER = Parting(event=0, own=True, what="", value="y", rule="kept", overwrites=True)
SIGN = Parting(event=1, own=True, what="s depends on the sign of a zero", value="s", rule="zeros", zeros_of=0)
PLAIN_VALUE = Parting(event=0, own=True, what="output 0 is wrong", value="y", rule="values")
ELSEWHERE = Parting(event=0, own=False, what="raises compiled only")


@pytest.mark.parametrize(
    ("seen", "draft", "end"),
    [
        (Compared(whole(), Sides(first=OVER)), DRAFT, None),
        (Compared(whole(), Sides(first=OVER)), None, (Status.PARTIAL, Kind.WRONG_OUTPUT, "No repro was made")),
        (Compared(whole(), Sides()), None, (Status.HEALTHY, None, "Healthy.")),
        (Compared(whole(cut="20,000 events"), Sides()), None, (Status.PARTIAL, None, "not all of it could be noted")),
        (Compared(why="no name for the backend"), None, (Status.PARTIAL, None, "no name for the backend")),
        (ChildFailed("gone"), None, (Status.PARTIAL, None, "gone")),
        (RecursionError(), None, (Status.PARTIAL, None, "RecursionError")),
        (IndexError("of no event"), None, (Status.PARTIAL, None, "of no event")),
        (BudgetExceeded("over"), None, (Status.PARTIAL, None, "no time")),
        (Compared(whole(), Sides(first=PLAIN_VALUE)), None, (Status.PARTIAL, Kind.WRONG_OUTPUT, "is wrong")),
        (
            Compared(whole(), Sides(first=ELSEWHERE)),
            None,
            (Status.PARTIAL, None, "part by another failure (raises compiled only)"),
        ),
    ],
    ids=[
        "read",
        "no repro",
        "not read",
        "noted in part",
        "not noted",
        "not traced",
        "too deep",
        "malformed",
        "no time",
        "wrong value",
        "another difference, not shown",
    ],
)
def test_a_result_that_was_written_over_is_a_failure_if_the_script_reads_it(
    routes: Routes, monkeypatch: pytest.MonkeyPatch, seen: object, draft: Draft | None, end: tuple[object, ...] | None
) -> None:
    def compared(_: object) -> object:
        if isinstance(seen, Exception):
            raise seen
        return seen

    monkeypatch.setattr(PartingLevel, "compared", compared)
    monkeypatch.setattr(PartingLevel, "draft", lambda *_, **__: draft)
    monkeypatch.setattr(FollowUp, "if_it_holds", lambda _, draft: draft)
    found = routes.follow(ScriptCase(Settled(Status.HEALTHY, None, "Healthy."), WROTE_OVER))
    if end is None:
        assert found is DRAFT
    else:
        assert isinstance(found, Settled)
        assert (found.status, found.kind) == end[:2]
        assert str(end[2]) in found.summary
        is_told = any(WROTE_OVER in text for text in (found.summary, *(one.object for one in found.excused)))
        assert is_told or "gives a wrong value" in found.summary


@pytest.mark.parametrize(
    ("seen", "end"),
    [
        (Compared(whole(), Sides(first=SIGN)), (Status.PARTIAL, Kind.WRONG_OUTPUT)),
        (Compared(whole(), Sides(first=PLAIN_VALUE)), (Status.PARTIAL, Kind.WRONG_OUTPUT)),
        (Compared(whole(), Sides()), (Status.HEALTHY, None)),
        (Compared(whole(), Sides(first=ELSEWHERE)), (Status.HEALTHY, None)),
        (Compared(why="no name for the backend"), (Status.HEALTHY, None)),
    ],
    ids=["read", "wrong value", "not read", "another difference, not shown", "not noted"],
)
def test_a_zero_of_another_sign_is_innocent_unless_the_script_was_seen_to_read_it(
    routes: Routes, monkeypatch: pytest.MonkeyPatch, seen: Compared, end: tuple[object, ...]
) -> None:
    monkeypatch.setattr(PartingLevel, "compared", lambda _: seen)
    monkeypatch.setattr(PartingLevel, "draft", lambda *_, **__: None)
    healthy = Settled(Status.HEALTHY, None, "Healthy.")
    found = routes.follow(ScriptCase(healthy, other_zeros="call 0 of graph 0"))
    assert isinstance(found, Settled)
    assert (found.status, found.kind) == end
    assert [one.rule for one in found.excused] == (["other_zeros"] if found.status is Status.HEALTHY else [])


@pytest.mark.parametrize(
    ("seen", "kind", "note"),
    [
        (Compared(whole(kind=outer.BACKWARD), Sides(first=PLAIN_VALUE)), Kind.WRONG_GRADIENT, ""),
        (Compared(whole(), Sides()), None, ""),
        (Compared(why="no name for the backend"), None, "was not compared: no name for the backend."),
    ],
    ids=["wrong", "right", "not noted"],
)
def test_a_backward_behind_a_change_of_its_inputs_is_compared_side_by_side(
    routes: Routes, monkeypatch: pytest.MonkeyPatch, seen: Compared, kind: Kind | None, note: str
) -> None:
    monkeypatch.setattr(PartingLevel, "compared", lambda _: seen)
    monkeypatch.setattr(PartingLevel, "draft", lambda *_, **__: None)
    healthy = Settled(Status.HEALTHY, None, "Healthy.")
    found = routes.follow(ScriptCase(healthy, behind_change="the backward of call 0 of graph 0"))
    assert isinstance(found, Settled)
    assert (found.status, found.kind) == (Status.HEALTHY if kind is None else Status.PARTIAL, kind)
    assert ("\n".join(found.notes)).endswith(note) and bool(found.notes) is bool(note)
    assert [one.rule for one in found.excused] == (["gradients_unreplayed"] if note else []), "which leaves it open"


@pytest.mark.parametrize(("first", "words"), [(OVER, WROTE_OVER), (SIGN, "call 0 of graph 0 gives a zero")])
def test_of_two_suspicions_the_one_is_told_that_was_seen(
    routes: Routes, monkeypatch: pytest.MonkeyPatch, first: Parting, words: str
) -> None:
    monkeypatch.setattr(PartingLevel, "compared", lambda _: Compared(whole(), Sides(first=first)))
    monkeypatch.setattr(PartingLevel, "draft", lambda *_, **__: None)
    healthy = Settled(Status.HEALTHY, None, "Healthy.")
    found = routes.follow(ScriptCase(healthy, WROTE_OVER, "call 0 of graph 0"))
    assert isinstance(found, Settled)
    assert words in found.summary and first.what in found.summary


def test_a_suspect_of_several_processes_stays_healthy_and_open(routes: Routes) -> None:
    routes.parts = replace(routes.parts, job=replace(routes.parts.job, options=Options(nproc=2)))
    found = routes.follow(ScriptCase(Settled(Status.HEALTHY, None, "Healthy."), WROTE_OVER))
    assert isinstance(found, Settled)
    assert found.status is Status.HEALTHY
    assert any(one.leaves_open for one in found.excused)
    assert "a script of several processes is not run side by side" in found.notes[-1]


def test_no_run_of_a_script_that_ends_well_confirms_a_workaround(
    routes: Routes, monkeypatch: pytest.MonkeyPatch
) -> None:
    def draft(level: PartingLevel, seen: Compared, kind: Kind, original: Any, *_: object, **__: object) -> Draft:
        with pytest.raises(ChildFailed, match="ends well without a change"):
            original.run("torch._inductor.config.max_fusion_size = 1")
        with pytest.raises(ChildFailed, match="ends well"):
            original.passes_without(["fusion"])
        return DRAFT

    monkeypatch.setattr(PartingLevel, "compared", lambda _: Compared(whole(), Sides(first=OVER)))
    monkeypatch.setattr(PartingLevel, "draft", draft)
    monkeypatch.setattr(FollowUp, "if_it_holds", lambda _, draft: draft)
    assert routes.follow(ScriptCase(Settled(Status.HEALTHY, None, "Healthy."), WROTE_OVER)) is DRAFT


def test_a_graph_that_is_right_by_itself_is_run_side_by_side_before_its_calls_are_repeated(
    routes: Routes, monkeypatch: pytest.MonkeyPatch
) -> None:
    give(routes, Graphs())
    leads(routes, monkeypatch, by_graph=GIVEN_UP, by_parting=DRAFT, by_sequence=DRAFT)
    assert routes.follow(failing(0, 2)) is DRAFT
    assert words(routes)[-1] == ("the program around the graphs, side by side", "a repro")


@pytest.mark.parametrize("kind", [Kind.RUNTIME_ERROR, Kind.COMPILE_ERROR])
def test_calls_around_graphs_are_asked_for_what_a_graph_raises_and_does_not_by_itself(
    routes: Routes, monkeypatch: pytest.MonkeyPatch, kind: Kind
) -> None:
    give(routes, Graphs())
    leads(routes, monkeypatch, by_graph=GIVEN_UP, by_outer=DRAFT)
    assert routes.follow(replace(failing(0, 0), signature=Signature(kind))) is DRAFT
    assert words(routes)[-1] == ("the program around the graphs", "a repro")


@pytest.mark.parametrize(
    ("end", "holds"),
    [
        (DRAFT, True),
        (DRAFT, False),
        (None, True),
        (ChildFailed("no trace"), True),
        (RecursionError(), True),
        (BudgetExceeded("over"), True),
    ],
)
def test_calls_around_graphs_that_show_nothing_leave_the_failure_to_the_script(
    routes: Routes, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, end: object, holds: bool
) -> None:
    def draft(level: OuterLevel, otherwise: Settled, known: Fault) -> object:
        routes.journal.show("repro.py", b"")
        routes.journal.record(replace(routes.journal.fault, also_seen=(AlsoSeen(kind=Kind.CRASH, signature="x"),)))
        if isinstance(end, Exception):
            raise end
        return end

    before = routes.journal.fault
    monkeypatch.setattr(OuterLevel, "draft", draft)
    monkeypatch.setattr(FollowUp, "if_it_holds", lambda _, draft: draft if holds else None)
    is_shown = end is DRAFT and holds
    assert routes.by_outer(GIVEN_UP) is (DRAFT if is_shown else None)
    assert (routes.journal.fault is before) is not is_shown
    if end is DRAFT:
        assert (tmp_path / "out" / "repro.py").exists() is holds
    routes.journal.keep()
    told = "the search around the graphs came to an end" in (tmp_path / "out" / "run.log").read_text()
    assert told is isinstance(end, ChildFailed | RecursionError), "what ended it is not lost"


def test_a_draft_of_calls_around_graphs_is_kept_where_no_time_is_left_for_another(
    routes: Routes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(OuterLevel, "draft", lambda *_: DRAFT)
    monkeypatch.setattr(FollowUp, "if_it_holds", lambda *_: None)
    with routes.journal.clock.within(1):
        assert routes.by_outer(GIVEN_UP) is DRAFT


def test_a_job_that_is_cancelled_there_keeps_what_it_has(
    routes: Routes, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def draft(level: OuterLevel, otherwise: Settled, known: Fault) -> Draft:
        routes.journal.show("repro.py", b"")
        routes.journal.record(replace(routes.journal.fault, also_seen=(AlsoSeen(kind=Kind.CRASH, signature="x"),)))
        return DRAFT

    def cancelled(*_: object) -> None:
        raise Cancelled("by its owner")

    monkeypatch.setattr(OuterLevel, "draft", draft)
    monkeypatch.setattr(FollowUp, "if_it_holds", cancelled)
    with pytest.raises(Cancelled):
        routes.by_outer(GIVEN_UP)
    assert routes.journal.fault.also_seen and (tmp_path / "out" / "repro.py").exists()


def test_one_rank_of_several_is_no_script_of_its_own(routes: Routes, monkeypatch: pytest.MonkeyPatch) -> None:
    give(routes, Graphs())
    job = replace(routes.parts.job, options=Options(nproc=2))
    routes.parts = replace(routes.parts, job=job)
    leads(routes, monkeypatch, by_graph=GIVEN_UP, by_sequence=DRAFT, by_script=DRAFT)
    assert routes.follow(failing(0, 1)) is GIVEN_UP


def test_route_that_is_cut_short_is_noted(routes: Routes, monkeypatch: pytest.MonkeyPatch) -> None:
    def over(case: Case) -> None:
        raise BudgetExceeded("over")

    monkeypatch.setattr(routes, "by_graph", over)
    with pytest.raises(BudgetExceeded):
        routes.follow(failing(0, 0))
    assert words(routes) == [("graph 0, with the exact inputs of its call 1", "cut short")]


@pytest.fixture(autouse=True)
def later_runs_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ask `Reruns` whether a later run fails again."""
    monkeypatch.setattr(calls, "fails_again", lambda reruns, case, **how: reruns.fails_again(case, **how))


class Reruns:
    """A triage of a script whose later runs fail or not, with the compiler's caches and without."""

    def __init__(self, cold: bool | None, warm: bool | None, in_inductor: bool = False) -> None:
        self._ends, self._in_inductor = {False: cold, True: warm}, in_inductor
        self.surveys, self._passed_by = self, list[int]()

    def without(self, graphs: list[int]) -> Settled:
        self.pass_by(graphs)
        return Settled(Status.HEALTHY, None, "No other.")

    def pass_by(self, graphs: Sequence[int]) -> None:
        self._passed_by = [*graphs]

    def held_at(self, case: Case) -> None:
        """No call can be held."""

    def fails_again(self, case: Case, *, caches: bool | str = False) -> bool | None:
        if caches == "inductor":
            return self._in_inductor
        return self._ends[bool(caches)] if case.graph not in self._passed_by else False


@pytest.mark.parametrize(
    ("is_cached", "cold", "warm", "reason"),
    [
        (True, False, True, Reason.UNEXPLAINED),
        (True, True, True, Reason.NOT_VERIFIED),
        (True, None, True, Reason.NOT_VERIFIED),
        (True, False, False, Reason.NOT_VERIFIED),
        (False, False, True, Reason.NOT_VERIFIED),
    ],
)
def test_caches_are_blamed_where_the_script_fails_with_them_alone(
    routes: Routes, monkeypatch: pytest.MonkeyPatch, is_cached: bool, cold: bool | None, warm: bool, reason: Reason
) -> None:
    give(routes, Reruns(cold, warm))
    leads(routes, monkeypatch, by_graph=GIVEN_UP)
    end = routes.follow(replace(failing(0, 0), is_cached=is_cached))
    assert isinstance(end, Settled)
    assert (end.status, end.reason) == (Status.PARTIAL, reason)
    is_of_caches = reason is Reason.UNEXPLAINED
    assert (end.kind is Kind.WRONG_OUTPUT) == is_of_caches
    workaround = routes.journal.report.workaround
    assert (workaround is not None and workaround.verified) == is_of_caches


def vanishing(routes: Routes, case: Case) -> None:
    """The search for a graph that passes by itself, where the failure needs a cache."""
    settled = routes.calls.needs_caches(case)
    assert settled is not None
    raise Unreduced(settled)


@pytest.mark.parametrize(
    ("in_inductor", "stage", "name"),
    [(False, Stage.AOT_AUTOGRAD, "AOTAutograd's cache"), (True, Stage.INDUCTOR, "the cache of Inductor's graphs")],
)
def test_the_cache_to_blame_is_named_before_other_ways_are_tried(
    routes: Routes, monkeypatch: pytest.MonkeyPatch, in_inductor: bool, stage: Stage, name: str
) -> None:
    give(routes, Reruns(False, True, in_inductor))
    case = replace(failing(0, 0), is_cached=True, message="output: value: expected -1.48, got -2.18")

    monkeypatch.setattr(routes, "by_graph", partial(vanishing, routes))
    end = routes.follow(case)

    assert [what for what, _ in words(routes)] == [
        "graph 0, with the exact inputs of its call 1",
        "its calls, taken from a cache",
    ]
    assert isinstance(end, Settled)
    assert end.cache == Cache(name, stage, case.message)
    assert name in end.summary and "expected -1.48, got -2.18" in end.summary


def test_the_cache_is_named_where_the_time_ends_before_there_is_a_repro(
    routes: Routes, monkeypatch: pytest.MonkeyPatch
) -> None:
    def over(*_: object) -> None:
        raise BudgetExceeded("over")

    give(routes, Reruns(False, True))
    monkeypatch.setattr(routes, "by_graph", partial(vanishing, routes))
    monkeypatch.setattr(routes.calls, "by_caches", over)
    end = routes.follow(replace(failing(0, 0), is_cached=True))
    assert isinstance(end, Settled) and end.cache is not None


def test_caches_that_there_was_no_time_to_ask_are_asked_behind_the_graph(
    routes: Routes, monkeypatch: pytest.MonkeyPatch
) -> None:
    reruns = Reruns(False, True)

    def cut_short(case: Case) -> None:
        with monkeypatch.context() as in_time:
            in_time.setattr(reruns, "fails_again", out_of_time)
            assert routes.calls.needs_caches(case) is None
        raise Unreduced(GIVEN_UP)

    def out_of_time(case: Case, *, caches: bool | str = False) -> bool:
        raise BudgetExceeded("over")

    give(routes, reruns)
    leads(routes, monkeypatch)
    monkeypatch.setattr(routes, "by_graph", cut_short)
    end = routes.follow(replace(failing(0, 0), is_cached=True))
    assert isinstance(end, Settled) and end.cache is not None


@pytest.mark.parametrize(
    ("exact", "left_out"),
    [
        (answers.Answer(aside="it ended early"), ["calls", "state"]),
        (answers.Answer(aside="too slow", not_compared=("C",)), ["calls", "state", "C"]),
        (answers.Answer(ended="call 3", not_compared=("C",)), ["calls", "state", "C"]),
        (answers.Answer(), ["calls"]),
        (answers.Answer(not_compared=("C",)), ["calls", "C"]),
    ],
)
def test_python_state_is_left_out_where_no_exact_run_has_looked_at_it(
    exact: answers.Answer, left_out: list[str]
) -> None:
    checked = parse(protocol.Checked, {"calls": 3, "not_compared": ["calls"], "state": ["state"]})
    known = answers.checked_of(checked, exact)
    assert (known.calls, known.not_compared) == (3, left_out)


@pytest.mark.needs_excuse("state_not_compared")
@pytest.mark.fault_behind("state_not_compared")
def test_python_state_that_nobody_compared_is_told_before_all_else() -> None:
    state = "Python state that traced code changes (calls): only what graphs compute is compared"
    seen = Settled(Status.HEALTHY, None, "No difference.", parse(protocol.Checked, {**COMPARED, "state": [state]}))
    assert is_sure(report_of(seen, answers.Answer(looks=3)))
    assert says_open(report_of(seen, answers.Answer(ended="call 3 on: the runs part")), "state_not_compared")


UNEXPLAINED = Settled(Status.PARTIAL, Reason.UNEXPLAINED, "It fails untouched.", kind=Kind.WRONG_OUTPUT)
WARM, PLAIN = "the script at the Python level", "the script, by plain runs"


def as_plain(routes: Routes, monkeypatch: pytest.MonkeyPatch, end: Settled, *answers: Any) -> tuple[Any, list[str]]:
    """What a failure that plain runs showed comes to, by the judges' answers, and those that were asked."""
    asked, left = list[str](), iter(answers)

    def by_script(self: Routes, otherwise: Settled, judge: Rerun) -> Draft | None:
        assert otherwise is end
        asked.append(PLAIN if isinstance(judge, PlainRerun) else WARM)
        answer = next(left)
        if isinstance(answer, Exception):
            raise answer
        return cast(Draft | None, answer)

    monkeypatch.setattr(Routes, "by_script", by_script)
    return routes.as_it_runs_plainly(end, cast(PlainRuns, None)), asked


def test_what_only_plain_runs_show_is_asked_of_the_warm_child_first(
    routes: Routes, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert as_plain(routes, monkeypatch, UNEXPLAINED, DRAFT) == (DRAFT, [WARM])


def test_then_plain_runs_are_the_judge(routes: Routes, monkeypatch: pytest.MonkeyPatch) -> None:
    assert as_plain(routes, monkeypatch, UNEXPLAINED, None, DRAFT) == (DRAFT, [WARM, PLAIN])


def test_the_warm_child_is_not_asked_again(routes: Routes, monkeypatch: pytest.MonkeyPatch) -> None:
    routes.tried.append(Attempt(what=WARM, outcome="no repro", seconds=1.0))
    assert as_plain(routes, monkeypatch, UNEXPLAINED, None) == (UNEXPLAINED, [PLAIN])


def test_a_search_by_plain_runs_that_lacks_the_time_leaves_the_verdict(
    routes: Routes, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert as_plain(routes, monkeypatch, UNEXPLAINED, BudgetExceeded("over")) == (UNEXPLAINED, [WARM])


@pytest.mark.parametrize("made", [DRAFT, None])
def test_an_error_that_plain_runs_lack_is_asked_of_how_the_script_ends(
    routes: Routes, monkeypatch: pytest.MonkeyPatch, made: Draft | None
) -> None:
    monkeypatch.setattr(MissingErrorLevel, "draft", lambda self, known: made)
    monkeypatch.setattr(Routes, "_that_holds", lambda self, make: make())
    end = replace(UNEXPLAINED, kind=Kind.MISSING_ERROR)
    assert as_plain(routes, monkeypatch, end) == (made or end, [])
    assert [attempt.what for attempt in routes.tried] == ["the script, by how it ends"]


@pytest.mark.parametrize(
    "changes",
    [{"kind": Kind.HANG}, {"reason": Reason.DISPUTED}, {"status": Status.HEALTHY, "reason": None, "kind": None}],
)  # fmt: skip
def test_other_verdicts_stay(routes: Routes, monkeypatch: pytest.MonkeyPatch, changes: dict[str, Any]) -> None:
    end = replace(UNEXPLAINED, **changes)
    assert as_plain(routes, monkeypatch, end) == (end, [])
