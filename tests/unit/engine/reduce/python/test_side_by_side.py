"""Scripts are asked about side by side, until one of them fails."""

from __future__ import annotations

import re
import threading
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minimizer.engine.reduce.problem import Problem
from minimizer.engine.reduce.python import Source, reduce_script
from minimizer.engine.reduce.python.side_by_side import until_one_fails
from minimizer.engine.reduce.python.source import changed_lines, number_of
from minimizer.errors import BudgetExceeded


@pytest.mark.parametrize("jobs", [1, 2, 5])
def test_all_are_asked_where_none_fails(jobs: int) -> None:
    assert until_one_fails([3, 1, 2], lambda n: n > 9, jobs) == [False, False, False]
    assert until_one_fails([], lambda n: True, jobs) == []


def test_none_is_asked_once_one_is_known_to_fail() -> None:
    asked: list[int] = []

    def fails(number: int) -> bool:
        asked.append(number)
        return number == 2

    assert until_one_fails([1, 2, 3, 4], fails, 1) == [False, True, None, None]
    assert asked == [1, 2]


def test_a_slow_one_does_not_keep_the_others_waiting() -> None:
    """The first is not answered before the third is asked."""
    third = threading.Event()

    def fails(number: int) -> bool:
        if number == 3:
            third.set()
        return number == 1 and third.wait(60)

    assert until_one_fails([1, 2, 3], fails, 2) == [True, False, False]


def test_the_end_of_the_time_is_raised_when_all_that_run_have_ended() -> None:
    ended = threading.Event()

    def fails(number: int) -> bool:
        if number == 1:
            raise BudgetExceeded("the time is up")
        ended.set()
        return False

    with pytest.raises(BudgetExceeded):
        until_one_fails([1, 2], fails, 2)
    assert ended.is_set()


@given(st.sets(st.integers(0, 11)), st.integers(1, 9))
def test_what_is_left_open_is_asked_again(needed: set[int], jobs: int) -> None:
    """Whatever an oracle leaves open, the result is the same, nothing is asked twice, and all answers count."""
    asked: list[str] = []

    def fails(source: Source) -> bool:
        asked.append(source.text)
        return all(f"f({number})\n" in source.text for number in needed)

    def check(candidates: Sequence[Source]) -> list[bool | None]:
        return until_one_fails(candidates, fails, 1)

    text = "".join(f"f({number})\n" for number in range(12))
    source = Source.parse(text)
    problem = Problem(source, check=check, key=lambda s: s.key, on_step=lambda step, best: None, jobs=jobs)
    problem.shrink([*range(12)], lambda base, chunk: base.without([_number(source, n) for n in chunk]), "statements")
    assert problem.best.text == "".join(f"f({number})\n" for number in sorted(needed)) or not needed
    assert len(asked) == len(set(asked)) == problem.trials


def _argument(source: Source) -> int:
    """The number in ``f(100)``; none in anything else."""
    found = re.fullmatch(r"f\((\d+)\)\n", source.text)
    return int(found[1]) if found else 0


def _number(source: Source, index: int) -> int:
    return int(source.tree.body[index].number)  # type: ignore[attr-defined]


def test_the_largest_number_is_found_where_answers_are_left_open() -> None:
    source = Source.parse("f(100)\n")

    def check(candidates: Sequence[Source]) -> list[bool | None]:
        return until_one_fails(candidates, lambda one: _argument(one) >= 37, 1)

    reduced = reduce_script(source, check=check, jobs=3)
    assert reduced.best.text == "f(37)\n"


LINES = [f"f({number})" for number in (0, 1, 5, 6)]


def test_what_was_refused_once_is_asked_again_at_the_end() -> None:
    """The first line may go once the third has gone, which stands nowhere near it."""
    source = Source.parse("\n".join(LINES))

    def fails(one: Source) -> bool:
        has = [line in one.text for line in LINES]
        return has[1] and has[3] and (has[0] or not has[2])

    reduced = reduce_script(source, check=lambda candidates: [fails(one) for one in candidates])
    assert reduced.best.text.splitlines() == [LINES[1], LINES[3]] and reduced.one_minimal


def test_a_change_that_was_refused_costs_no_second_trial_until_then() -> None:
    tried: list[str] = []

    def check(candidates: Sequence[Source]) -> list[bool]:
        tried.extend(one.text for one in candidates)
        return ["f(0)" in one.text for one in candidates]

    source = Source.parse("f(0)\nf(1)\nf(2)\n")
    problem = Problem(
        source, check=check, key=lambda s: s.key, on_step=lambda step, best: None, jobs=1, change=changed_lines
    )

    def drop(index: int) -> list[bool | None]:
        return problem.judge([problem.best.without([_number(source, index)])], "statements")

    assert drop(0) == [False] and drop(2) == [True]
    assert drop(0) == [False] and len(tried) == 2, "the same change, of another script"
    problem.recheck()
    assert drop(0) == [False] and tried[2:] == ["f(1)\n"]


def test_a_detour_is_taken_once_and_only_its_end_has_to_be_smaller() -> None:
    tried: list[str] = []

    def check(candidates: Sequence[Source]) -> list[bool]:
        tried.extend(one.text for one in candidates)
        return ["f(2)" in one.text for one in candidates]

    def drop(aside: Problem[Source]) -> None:
        aside.shrink([number_of(one) for one in aside.best.tree.body], Source.without, "statements")

    for longer, left in (("f(1)\nf(2)\nf(3)\n", "f(2)\n"), ("f(1)\nf(3)\nf(4)\n", "f(2) or 1\n")):
        problem = Problem(
            Source.parse("f(2) or 1\n"), check=check, key=lambda s: s.key, on_step=lambda step, best: None, jobs=1
        )
        tried.clear()
        problem.detour(Source.parse(longer), drop, "rounds")
        assert problem.best.text == left
        asked = problem.trials
        assert not problem.detour(Source.parse(longer), drop, "rounds")
        assert len(tried) == problem.trials == asked
