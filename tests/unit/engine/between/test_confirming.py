"""What is left of a difference after further runs: one that moves by itself in some of them, or comes only once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import cast

import pytest
from healthy_verdict import report_of, says_open

from minimizer.engine.between.answer import UNCONFIRMED, Answer
from minimizer.engine.between.exact_runs import ExactRuns
from minimizer.engine.child.exact_log import Entry, ExactLog, Look
from minimizer.engine.child.executor import Executor
from minimizer.engine.child.outcome import Ending, ExceptionInfo, Outcome
from minimizer.inside.questions import ExactRequest

State = dict[str, Entry]


class Runs:
    """Runs of a script with one call, of which ``eager`` and ``compiled`` say what the nth one sees, from 1."""

    def __init__(self, eager: Callable[[int], State], compiled: Callable[[int], State]) -> None:
        self._sees = {True: eager, False: compiled}
        self._made = {True: 0, False: 0}

    def judge(self, requests: Sequence[ExactRequest], **_: object) -> list[Outcome]:
        return [self._run(request) for request in requests]

    def _run(self, request: ExactRequest) -> Outcome:
        return Outcome(ending=Ending.SAME, exact=self._log(request.eager is not None))

    def _log(self, is_eager: bool) -> ExactLog:
        self._made[is_eager] += 1
        return self._looks(self._sees[is_eager](self._made[is_eager]), self._made[is_eager])

    def _looks(self, state: State, run: int) -> ExactLog:
        seen = (("call entry", {}), ("call exit", state), ("end", {}))
        looks = [Look(event=event, unit=1, number=1, full=True, changed=changed) for event, changed in seen]
        return ExactLog(looks=looks, calls=1)


class Slow(Runs):
    """Takes too long where all that it holds is to be looked at."""

    def _run(self, request: ExactRequest) -> Outcome:
        return super()._run(request) if request.full == () else Outcome(ending=Ending.TIMEOUT)


class ByTheClock(Runs):
    """Makes another number of calls in each run."""

    def _looks(self, state: State, run: int) -> ExactLog:
        *first, end = super()._looks(state, run).looks
        numbers = range(2, 3 + sum(self._made.values()))
        more = [Look(event="call exit", unit=number, number=number, full=True) for number in numbers]
        return ExactLog(looks=[*first, *more, end.model_copy(update={"unit": 99})], calls=1 + len(more))


def compared(runs: Runs) -> Answer:
    return ExactRuns(cast(Executor, runs), Path("script.py"), timeout=1, line_of=lambda _: "line 9").compare("")


def state(number: int, length: int) -> State:
    return {"id": {"type": "int", "value": str(number)}, "items": {"type": "list", "length": str(length)}}


@pytest.mark.fault_behind("exact_unconfirmed")
def test_an_id_that_two_eager_runs_share_by_chance_does_not_hide_an_item_that_is_lost() -> None:
    found = compared(Runs(lambda run: state(max(1, run - 1), 1), lambda _: state(7, 0))).found
    assert found is not None and found.call == 1
    assert found.difference.paths == {"items"}


@pytest.mark.fault_behind("exact_unconfirmed")
def test_an_id_that_all_eager_runs_share_with_some_compiled_ones_does_not_hide_an_item_that_is_lost() -> None:
    """Addresses are the same in runs that start alike, until something else has taken the place."""

    def later(number: int, length: int) -> State:
        return {"id": {"type": "int", "value": str(number)}, "later": {"type": "list", "length": str(length)}}

    class TwoCalls(Runs):
        def _looks(self, state: State, run: int) -> ExactLog:
            calls = (("call exit", 1, {"id": state["id"]}), ("call exit", 2, {"later": state["later"]}))
            looks = [Look(event=event, unit=n, number=n, full=True, changed=changed) for event, n, changed in calls]
            return ExactLog(looks=[*looks, Look(event="end", unit=3, full=True, changed={})], calls=2)

    for of_compiled in ([7, 1, 1], [1, 7, 1], [7, 8, 9], [7, 8, 7]):
        found = compared(
            TwoCalls(lambda _: later(1, 1), lambda run, seen=of_compiled: later(seen[min(run, 3) - 1], 0))
        ).found  # type: ignore[misc]
        assert found is not None and found.difference.paths == {"later"}


class WatchesInVain(Runs):
    """Does not come to its end where it is watched what the compiler's own functions write."""

    def _run(self, request: ExactRequest) -> Outcome:
        return Outcome(ending=Ending.TIMEOUT) if request.written else super()._run(request)


def test_a_difference_that_the_compiler_may_have_written_is_no_fault() -> None:
    answer = compared(WatchesInVain(lambda _: state(1, 1), lambda _: state(1, 0)))
    assert answer.found is None
    assert answer.ended == f"call 1 (line 9) on: {UNCONFIRMED}"


class OnOwnBackend(Runs):
    """Sees a tensor that requires gradients on the backend eager, and ``own`` on the script's own backend."""

    def __init__(self, own: str) -> None:
        super().__init__(lambda _: self._tensor("False"), lambda _: self._tensor("True"))
        self._own = own

    def _run(self, request: ExactRequest) -> Outcome:
        if not request.own_backend:
            return super()._run(request)
        return Outcome(ending=Ending.SAME, exact=self._looks(self._tensor(self._own), 1))

    def _tensor(self, requires_grad: str) -> State:
        return {"weight.grad": {"type": "Tensor", "requires_grad": requires_grad}}


@pytest.mark.fault_behind("exact_backend")
@pytest.mark.parametrize("own", ["True", "False"])
def test_which_tensors_require_gradients_is_a_fault_where_the_scripts_own_backend_shows_it_too(own: str) -> None:
    answer = compared(OnOwnBackend(own))
    assert (answer.found is not None) == (own == "True")
    assert ("exact_backend" in {one.rule for one in answer.excused}) == (own == "False")


class Traced(Runs):
    """Sees something else where AOTAutograd traces the graphs: at most in the first of these runs, or never comes to its end there."""

    def __init__(self, first: State | None) -> None:
        super().__init__(lambda _: state(1, 1), lambda _: state(1, 1))
        self._first = first
        self._asked = 0

    def _run(self, request: ExactRequest) -> Outcome:
        if not request.aot or request.eager is not None:
            return super()._run(request)
        self._asked += 1
        if self._first is None:
            return Outcome(ending=Ending.TIMEOUT)
        return Outcome(
            ending=Ending.SAME, exact=self._looks(self._first if self._asked < 3 else state(1, 1), self._asked)
        )


@pytest.mark.parametrize(
    ("first", "rule"), [(None, "exact_no_answer"), (state(1, 0), "exact_unconfirmed"), (state(1, 1), "")]
)
def test_what_is_open_behind_aot_autograd_is_told(first: State | None, rule: str) -> None:
    answer = compared(Traced(first))
    assert answer.found is None
    assert [one.rule for one in answer.excused] == ([rule] if rule else [])
    assert not rule or says_open(report_of(exact=answer), rule)


@pytest.mark.needs_excuse("exact_unconfirmed")
def test_a_difference_that_comes_only_once_is_told_and_no_fault() -> None:
    answer = compared(Runs(lambda _: state(1, 1), lambda run: state(1, min(1, run - 1))))
    assert answer.found is None
    assert answer.ended == f"call 1 (line 9) on: {UNCONFIRMED}"
    assert answer.not_compared == (f"what lies between graphs from {answer.ended}",)
    assert [one.rule for one in answer.excused] == ["exact_unconfirmed"]


def test_what_moves_without_the_compiler_in_later_runs_only_is_no_open_question() -> None:
    answer = compared(Runs(lambda run: state(max(1, run - 1), 1), lambda _: state(7, 1)))
    assert (answer.found, answer.ended, answer.not_compared) == (None, "", ())


@pytest.mark.fault_behind("exact_no_answer")
def test_what_calls_return_is_compared_where_the_rest_takes_too_long() -> None:
    one, two = ({"result": {"type": "int", "value": value}} for value in "12")
    found = compared(Slow(lambda _: one, lambda _: two)).found
    assert found is not None and found.difference.paths == {"result"}
    answer = compared(Slow(lambda _: one, lambda _: one))
    assert answer.found is None and answer.aside == ""
    assert says_open(report_of(exact=answer), "exact_no_answer"), "what the script holds was not compared"


@pytest.mark.needs_excuse("exact_parted")
@pytest.mark.fault_behind("exact_parted")
def test_a_loop_by_the_clock_is_told_before_all_else_and_hides_nothing_before_it() -> None:
    answer = compared(ByTheClock(lambda _: state(1, 1), lambda _: state(1, 1)))
    assert answer.found is None and says_open(report_of(exact=answer), "exact_parted")
    found = compared(ByTheClock(lambda _: state(1, 1), lambda _: state(1, 0))).found
    assert found is not None and found.difference.paths == {"items"}


class Raising(Runs):
    """A script that draws numbers, and whose compiled runs end by an error of its own after its call."""

    def judge(self, requests: Sequence[ExactRequest], **_: object) -> list[Outcome]:
        outcomes = super().judge(requests)
        error = ExceptionInfo(type="KeyError", message="", root_type="KeyError", root_message="")
        return [
            outcome.model_copy(
                update={
                    "draws": True,
                    **({} if r.eager is not None else {"ending": Ending.RUNTIME_ERROR, "exception": error}),
                }
            )
            for r, outcome in zip(requests, outcomes, strict=True)
        ]


def test_a_script_that_draws_is_known_to_where_its_compiled_run_ends_early() -> None:
    found = compared(Raising(lambda _: state(1, 1), lambda _: state(1, 0))).found
    assert found is not None and found.draws
