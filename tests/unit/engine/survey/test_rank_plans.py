"""Runs of a script with several ranks take turns, and what they compared adds up."""

from __future__ import annotations

from minimizer.engine.child.protocol import GraphCalls
from minimizer.engine.survey.rank_plans import RankPlans
from minimizer.vocabulary import Kind


def calls(made: int, compared: int) -> list[GraphCalls]:
    """A run of one graph whose calls have one key, the first of them compared."""
    done = list(range(compared))
    return [GraphCalls(keys=[0] * made, watched=done, compared=done, backward=[])]


def test_a_script_of_one_process_has_one_plan() -> None:
    plans = RankPlans(None, 1)
    assert plans.next_calls(9) is None
    plans.after(calls(4, 2))
    plans.turn()
    assert (plans.rank, plans.is_complete, plans.left_out()) == (0, False, [])
    assert plans.next_calls(2) == {0: [2, 3]}
    assert plans.counts() == {"calls": 2, "backward": 0}


def test_ranks_take_turns_and_add_up() -> None:
    plans = RankPlans(None, 3)
    plans.after(calls(4, 4))
    assert not plans.is_complete
    assert plans.left_out() == [
        "ranks 1 and 2 of 3: a run of the script watches one rank, and there was no time for more runs"
    ]
    plans.turn()
    assert (plans.rank, plans.next_calls(9)) == (1, None)
    plans.after(calls(4, 3))
    assert plans.counts() == {"calls": 7, "backward": 0, "calls_made": 8, "planned": 8}
    assert plans.left_out() == [
        "rank 2 of 3: a run of the script watches one rank, and there was no time for more runs"
    ]
    plans.turn()
    plans.after(calls(4, 4))
    plans.turn()
    assert (plans.rank, plans.is_complete, plans.left_out()) == (0, False, [])
    plans.turn()
    plans.after(calls(4, 4))
    assert plans.is_complete


def test_a_rank_of_which_no_call_of_a_key_was_compared_is_told() -> None:
    plans = RankPlans(None, 2)
    plans.after(calls(2, 0))
    assert plans.untouched == 1


def test_a_call_that_no_earlier_run_of_the_rank_compared_has_not_passed() -> None:
    """Or a failure that always shows would be called flaky."""
    plans = RankPlans(None, 2)
    plans.after(calls(4, 2))
    assert [plans.passed(Kind.WRONG_OUTPUT, 0, call, earlier=1) for call in (1, 2)] == [1, 0]
    assert plans.passed(Kind.WRONG_GRADIENT, 0, 1, earlier=1) == 0
    assert plans.passed(Kind.WRONG_OUTPUT, 1, 0, earlier=1) == 0
    assert plans.passed(Kind.RUNTIME_ERROR, 0, 2, earlier=1) == 1
    assert plans.passed(Kind.RUNTIME_ERROR, 0, 2, earlier=0) == 0
    plans.turn()
    assert plans.passed(Kind.WRONG_OUTPUT, 0, 1, earlier=1) == 0


def test_before_any_run_no_rank_is_left_out() -> None:
    assert RankPlans(None, 2).left_out() == []
