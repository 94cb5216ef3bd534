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

from minimizer.engine.between import answer as answers
from minimizer.engine.budget.clock import Clock
from minimizer.engine.child import protocol
from minimizer.engine.child.bounded import parse
from minimizer.engine.child.outcome import Outcome
from minimizer.engine.journal import Journal
from minimizer.engine.levels.window import Unreduced
from minimizer.engine.localize.suspects import Answer
from minimizer.engine.oracle.signature import Signature, signature_of
from minimizer.engine.program.arguments import Ref
from minimizer.engine.program.model import Input, Node, Program, TensorMeta
from minimizer.engine.program.regions import Region
from minimizer.engine.reduce.python import Rerun
from minimizer.engine.routes import Made, Routes, checked_of, unanswered
from minimizer.engine.survey.cases import Cache, Case, ScriptCase, Settled
from minimizer.engine.survey.plain_rerun import PlainRerun
from minimizer.engine.survey.plain_runs import PlainRuns
from minimizer.engine.survey.verdicts import unexamined
from minimizer.errors import BudgetExceeded, Cancelled, ChildFailed
from minimizer.options import Options
from minimizer.report.examined import Attempt
from minimizer.report.model import Failure, Reduction, Report, Reproducibility
from minimizer.sink import FolderSink
from minimizer.vocabulary import Kind, Reason, Stage, Status


class Kept:
    """A finished result."""

    def __init__(self) -> None:
        self.times = 0

    def keep(self, journal: Journal) -> None:
        self.times += 1


@pytest.fixture
def routes(tmp_path: Path) -> Iterator[Routes]:
    (tmp_path / "a.py").write_text("import torch\n")
    journal = Journal(FolderSink(tmp_path / "out"), Report(), Clock(600))
    with ThreadPoolExecutor(1) as beside:
        none = cast(Any, None)
        yield Routes(none, cast(Any, Suspects()), journal, Options(), tmp_path / "a.py", 1, beside)


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
    routes: Routes, monkeypatch: pytest.MonkeyPatch, script: list[str], window: list[str], pinned: bool
) -> None:
    signature = signature_of(wrong(*script))
    assert signature is not None
    case = replace(suspect(), signature=signature, otherwise=None)
    search = routes._search(case)
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
        routes._reduce(suspect())
    assert routes.report.failure is None


def test_a_suspect_that_cannot_be_taken_apart_leaves_the_question_open(
    routes: Routes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where a later one turns out to be rounding."""
    answers = [Answer(unasked=(Region(0, 1),)), Answer()]

    def cannot_be_traced(case: Case) -> Program:
        raise ChildFailed("no")

    def ask(*_: object, **__: object) -> Answer:
        return answers.pop(0)

    monkeypatch.setattr("minimizer.engine.levels.window.first_wrong", ask)
    monkeypatch.setattr(Case, "lowered", cannot_be_traced)
    first, second = suspect(), suspect()
    routes.triage = cast(Any, Suspects(second))
    with pytest.raises(Unreduced) as end:
        routes._reduce(first)
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
    monkeypatch.setattr("minimizer.engine.levels.window.WindowSearch._confirmed", lambda *_: None)
    monkeypatch.setattr("minimizer.engine.levels.window.WindowSearch._lowered", lambda *_: None)
    case = replace(suspect(), otherwise=None, call=call)
    with pytest.raises(Unreduced) as end:
        routes._reduce(case)
    assert (end.value.settled.status, end.value.settled.reason) == (Status.PARTIAL, Reason.NOT_VERIFIED)
    assert said in end.value.settled.summary


def test_a_graph_whose_holder_is_gone_leaves_the_question_open() -> None:
    gone = ChildFailed("the holder of the graph is gone")
    mere_suspect = unanswered(gone, suspect())
    failure = unanswered(gone, replace(suspect(), otherwise=None))
    assert [(s.status, s.reason) for s in (mere_suspect, failure)] == [(Status.PARTIAL, Reason.NOT_VERIFIED)] * 2
    assert "may be legal rounding" in mere_suspect.summary and "The script fails" in failure.summary


class Overwriting:
    """A Python level that says its own of the failure, and then breaks off."""

    def __init__(self, journal: Journal, error: Exception) -> None:
        self._journal, self._error = journal, error

    def repro(self, otherwise: object) -> None:
        another = Failure(kind=Kind.RUNTIME_ERROR, signature="another")
        self._journal.fault = replace(self._journal.fault, failure=another, reduction=None)
        raise self._error


@pytest.mark.parametrize("error", [BudgetExceeded("over"), ChildFailed("gone"), Cancelled("enough")])
def test_a_repro_is_not_lost_to_the_attempt_at_a_nicer_one(
    routes: Routes, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    failure = Failure(kind=Kind.WRONG_OUTPUT, stage=Stage.INDUCTOR, signature="sin")
    report = routes.report
    routes.journal.fault = replace(
        routes.journal.fault, failure=failure, reduction=Reduction(nodes_before=9, nodes_after=2)
    )
    before = report.model_copy(deep=True)
    monkeypatch.setattr(routes, "_python_level", lambda: Overwriting(routes.journal, error))
    result = Kept()

    if isinstance(error, Cancelled):
        with pytest.raises(Cancelled):
            routes._in_public(cast(Any, result))
    else:
        assert routes._in_public(cast(Any, result)) is cast(Any, result)
        assert result.times == 1
    assert report == before


GIVEN_UP = Settled(Status.PARTIAL, Reason.NOT_VERIFIED, "It vanishes.")
MADE = Made(cast(Any, "result"), None)


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
    return [(attempt.what, attempt.outcome) for attempt in routes.report.attempts]


def leads(routes: Routes, monkeypatch: pytest.MonkeyPatch, **ends: object) -> None:
    """Let routes end so: a repro, a verdict, or None."""
    for name in ("_by_graph_or_verdict", "_by_sequence", "_by_script"):
        monkeypatch.setattr(routes, name, partial(answered, ends.get(name[1:])))


def answered(end: object, _: object) -> object:
    return end


def test_every_route_is_tried_before_a_failure_is_given_up(routes: Routes, monkeypatch: pytest.MonkeyPatch) -> None:
    routes.triage = cast(Any, Graphs(failing(2, 0)))
    leads(routes, monkeypatch, by_graph_or_verdict=GIVEN_UP)
    assert routes.follow(failing(0, 1)) is GIVEN_UP
    assert words(routes) == [
        ("graph 0, with the exact inputs of its call 2", "no repro"),
        ("graph 0, with the calls that led to its call 2", "no repro"),
        ("the other graphs of the run", "another failing call"),
        ("graph 2, with the exact inputs of its call 1", "no repro"),
        ("the other graphs of the run", "no repro"),
        ("the script at the Python level", "no repro"),
    ]
    assert cast(Any, routes.triage).passed_by == [0, 2]


@pytest.mark.parametrize(
    ("ends", "last"),
    [
        ({"by_graph_or_verdict": MADE}, "graph 0, with the exact inputs of its call 2"),
        (
            {"by_graph_or_verdict": GIVEN_UP, "by_sequence": MADE},
            "graph 0, with the calls that led to its call 2",
        ),
        ({"by_graph_or_verdict": GIVEN_UP, "by_script": MADE}, "the script at the Python level"),
    ],
    ids=["graph", "sequence", "script"],
)
def test_first_route_with_a_repro_is_the_last_that_is_taken(
    routes: Routes, monkeypatch: pytest.MonkeyPatch, ends: dict[str, object], last: str
) -> None:
    routes.triage = cast(Any, Graphs())
    leads(routes, monkeypatch, **ends)
    assert routes.follow(failing(0, 1)) is MADE
    assert words(routes)[-1] == (last, "a repro")


def test_failure_that_eager_does_not_repeat_is_no_matter_for_other_routes(
    routes: Routes, monkeypatch: pytest.MonkeyPatch
) -> None:
    unsteady = Settled(Status.FAILED, Reason.NONDETERMINISTIC, "Eager differs from eager.")
    leads(routes, monkeypatch, by_graph_or_verdict=unsteady, by_script=MADE)
    assert routes.follow(failing(0, 1)) is unsteady
    assert len(words(routes)) == 1


def test_script_whose_failure_no_graph_carries_is_reduced_itself(
    routes: Routes, monkeypatch: pytest.MonkeyPatch
) -> None:
    leads(routes, monkeypatch, by_script=MADE)
    assert routes.follow(ScriptCase(GIVEN_UP)) is MADE


def test_one_rank_of_several_is_no_script_of_its_own(routes: Routes, monkeypatch: pytest.MonkeyPatch) -> None:
    routes.options, routes.triage = Options(nproc=2), cast(Any, Graphs())
    leads(routes, monkeypatch, by_graph_or_verdict=GIVEN_UP, by_sequence=MADE, by_script=MADE)
    assert routes.follow(failing(0, 1)) is GIVEN_UP


def test_route_that_is_cut_short_is_noted(routes: Routes, monkeypatch: pytest.MonkeyPatch) -> None:
    def over(case: Case) -> None:
        raise BudgetExceeded("over")

    monkeypatch.setattr(routes, "_by_graph_or_verdict", over)
    with pytest.raises(BudgetExceeded):
        routes.follow(failing(0, 0))
    assert words(routes) == [("graph 0, with the exact inputs of its call 1", "cut short")]


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
    routes.triage = cast(Any, Reruns(cold, warm))
    leads(routes, monkeypatch, by_graph_or_verdict=GIVEN_UP)
    end = routes.follow(replace(failing(0, 0), is_cached=is_cached))
    assert isinstance(end, Settled)
    assert (end.status, end.reason) == (Status.PARTIAL, reason)
    is_of_caches = reason is Reason.UNEXPLAINED
    assert (end.kind is Kind.WRONG_OUTPUT) == is_of_caches
    workaround = routes.report.workaround
    assert (workaround is not None and workaround.verified) == is_of_caches


@pytest.mark.parametrize(
    ("in_inductor", "stage", "name"),
    [(False, Stage.AOT_AUTOGRAD, "AOTAutograd's cache"), (True, Stage.INDUCTOR, "the cache of Inductor's graphs")],
)
def test_the_cache_to_blame_is_named_before_other_ways_are_tried(
    routes: Routes, monkeypatch: pytest.MonkeyPatch, in_inductor: bool, stage: Stage, name: str
) -> None:
    routes.triage = cast(Any, Reruns(False, True, in_inductor))
    case = replace(failing(0, 0), is_cached=True, message="output: value: expected -1.48, got -2.18")

    def vanishing(case: Case) -> Settled:
        return routes._needs_caches(case) or pytest.fail("not asked")

    monkeypatch.setattr(routes, "_by_graph_or_verdict", vanishing)
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
    def over(case: Case, cache: Cache) -> None:
        raise BudgetExceeded("over")

    routes.triage = cast(Any, Reruns(False, True))
    monkeypatch.setattr(routes, "_by_graph_or_verdict", lambda case: routes._needs_caches(case))
    monkeypatch.setattr(routes, "_by_caches", over)
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
    known = checked_of(checked, exact)
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

    def by_script(self: Routes, otherwise: Settled, judge: Rerun) -> Made | None:
        assert otherwise is end
        asked.append(PLAIN if isinstance(judge, PlainRerun) else WARM)
        answer = next(left)
        if isinstance(answer, Exception):
            raise answer
        return cast(Made | None, answer)

    monkeypatch.setattr(Routes, "_by_script", by_script)
    return routes.as_it_runs_plainly(end, cast(PlainRuns, None)), asked


def test_what_only_plain_runs_show_is_asked_of_the_warm_child_first(
    routes: Routes, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = Made(cast(Any, None), None)
    assert as_plain(routes, monkeypatch, UNEXPLAINED, made) == (made, [WARM])


def test_then_plain_runs_are_the_judge(routes: Routes, monkeypatch: pytest.MonkeyPatch) -> None:
    made = Made(cast(Any, None), None)
    assert as_plain(routes, monkeypatch, UNEXPLAINED, None, made) == (made, [WARM, PLAIN])


def test_the_warm_child_is_not_asked_again(routes: Routes, monkeypatch: pytest.MonkeyPatch) -> None:
    routes.tried.append(Attempt(what=WARM, outcome="no repro", seconds=1.0))
    assert as_plain(routes, monkeypatch, UNEXPLAINED, None) == (UNEXPLAINED, [PLAIN])


def test_a_search_by_plain_runs_that_lacks_the_time_leaves_the_verdict(
    routes: Routes, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert as_plain(routes, monkeypatch, UNEXPLAINED, BudgetExceeded("over")) == (UNEXPLAINED, [WARM])


@pytest.mark.parametrize(
    "changes",
    [{"kind": Kind.HANG}, {"kind": Kind.MISSING_ERROR}, {"reason": Reason.DISPUTED}, {"status": Status.HEALTHY, "reason": None, "kind": None}],
)  # fmt: skip
def test_other_verdicts_stay(routes: Routes, monkeypatch: pytest.MonkeyPatch, changes: dict[str, Any]) -> None:
    end = replace(UNEXPLAINED, **changes)
    assert as_plain(routes, monkeypatch, end) == (end, [])
