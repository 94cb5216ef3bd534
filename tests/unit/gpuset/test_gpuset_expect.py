"""Verdicts on what a script of the GPU set answered."""

from __future__ import annotations

from typing import Any

import pytest
from gpuset.expect import EXPECTED, KNOWN_WRONG, NO_ANSWER, WRONG, Answer, describe, judge
from gpuset.rows import DEVICES, SCRIPTS, Side, chosen, load

RELU = {"exit": 0, "kind": "wrong_output", "stage": ["inductor", "cudagraphs"], "op": "aten.relu", "nodes": 1}
GOOD = Answer(0, None, "wrong_output", "inductor", ("aten.relu",), 1)


def changed(**parts: Any) -> Answer:
    return Answer(**{**vars(GOOD), **parts})


def test_an_answer_that_fits_in_all_that_is_named_is_right() -> None:
    assert judge(GOOD, Side((RELU,))) == EXPECTED
    assert judge(changed(stage="cudagraphs"), Side((RELU,))) == EXPECTED
    assert judge(changed(reason="disputed"), Side((RELU,))) == EXPECTED, "what is not named is free"


@pytest.mark.parametrize(
    "parts",
    [{"exit": 4}, {"kind": "crash"}, {"stage": "dynamo"}, {"ops": ("aten.sin",)}, {"ops": ()}, {"nodes": 2}, {"nodes": None}],
    ids=str,
)  # fmt: skip
def test_an_answer_that_differs_in_one_thing_is_wrong(parts: dict[str, Any]) -> None:
    assert judge(changed(**parts), Side((RELU,))) == WRONG


def test_one_of_several_right_answers_is_enough() -> None:
    side = Side(({"exit": 3}, {"exit": 5, "reason": "nondeterministic"}))
    assert judge(Answer(3), side) == EXPECTED
    assert judge(Answer(5, "nondeterministic"), side) == EXPECTED
    assert judge(Answer(5, "fails_in_eager"), side) == WRONG
    assert describe(side) == "exit 3 or exit 5, reason nondeterministic"


def test_what_is_known_to_be_wrong_is_told_from_what_is_new() -> None:
    side = Side((RELU,), known_wrong="outputs of earlier calls are not looked at again")
    assert judge(Answer(3), side) == KNOWN_WRONG
    assert judge(None, side) == KNOWN_WRONG
    assert judge(GOOD, side) == EXPECTED
    assert judge(None, Side((RELU,))) == NO_ANSWER


def test_a_slip_in_the_table_is_no_verdict() -> None:
    with pytest.raises(ValueError, match="knid"):
        judge(GOOD, Side(({"knid": "crash"},)))


def test_an_answer_is_read_from_a_report() -> None:
    report = {
        "reason": None, "failure": {"kind": "wrong_output", "stage": "inductor"},
        "culprits": [{"ops": ["aten.relu"]}], "reduction": {"nodes_after": 1},
    }  # fmt: skip
    assert Answer.of(0, report) == GOOD
    assert Answer.of(5, {"reason": "fails_in_eager"}) == Answer(5, "fails_in_eager")
    assert str(GOOD) == "exit 0, wrong_output, inductor, aten.relu"


def test_every_script_has_a_row_and_every_row_a_script() -> None:
    rows = load()
    assert sorted(row.name for row in rows) == sorted(path.stem for path in SCRIPTS.glob("*.py"))
    assert len(rows) >= 16


@pytest.mark.parametrize("row", load(), ids=lambda row: row.name)
def test_a_row_can_be_judged_and_says_why_it_has_no_twin(row: Any) -> None:
    assert "cuda" in row.sides
    assert bool(row.no_twin) is ("cpu" not in row.sides)
    for side in row.sides.values():
        assert judge(Answer(-1), side) in (WRONG, KNOWN_WRONG), "no row takes any answer for right"
    assert row.sides["cuda"].limit <= 240, "a script that stands still must leave time for the others"


def test_rows_that_need_the_card_for_themselves_come_last() -> None:
    alone = [row.sides["cuda"].alone for row in load()]
    assert alone == sorted(alone)


def test_rows_are_chosen_by_name_in_the_order_of_the_set() -> None:
    names = [row.name for row in load() if "cpu" in row.sides]
    assert [row.name for row in chosen(load(), "cpu", reversed(names[:3]))] == names[:3]
    assert [row.name for row in chosen(load(), "cpu", [])] == names
    with pytest.raises(ValueError, match="stream_race"):
        chosen(load(), "cpu", ["stream_race"])
    assert DEVICES == ("cuda", "cpu")
