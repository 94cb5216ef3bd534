"""The way back from a program that fails in trials only."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import pytest

from minimizer.engine.program.model import Program
from minimizer.engine.verify.clean_process_oracle import Alone, last_that_fails


@pytest.mark.parametrize("firm", range(1, 9))
def test_the_smallest_that_fails_is_found_in_few_questions(firm: int) -> None:
    way = [cast(Program, number) for number in range(8)]
    asked: list[Any] = []

    def check(programs: Sequence[Program]) -> list[bool]:
        asked.extend(programs)
        return [cast(int, program) < firm for program in programs]

    assert last_that_fails(way, check) == firm - 1
    assert len(asked) <= 4


def test_where_the_first_does_not_fail_there_is_no_way_back() -> None:
    assert last_that_fails([cast(Program, 0), cast(Program, 1)], lambda programs: [False] * len(programs)) is None


class Trials:
    """An oracle for which all but "passes" fails."""

    def check(self, programs: Sequence[Any]) -> list[bool]:
        return [program != "passes" for program in programs]


def test_a_clean_process_is_asked_only_of_what_fails_in_a_trial() -> None:
    asked: list[tuple[Any, bytes | None]] = []

    def fails(repro: Any, data: bytes | None) -> bool:
        asked.append((repro, data))
        return repro == "repro of firm"

    def write(program: Any) -> Any:
        return None if program == "unwritable" else (f"repro of {program}", b"data")

    alone = Alone(cast(Any, Trials()), write, fails)
    programs: list[Any] = ["firm", "passes", "garbage", "unwritable"]
    assert alone.check(programs) == [True, False, False, False]
    assert asked == [("repro of firm", b"data"), ("repro of garbage", b"data")]
