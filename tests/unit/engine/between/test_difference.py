"""The first difference of two runs, and what is none."""

from __future__ import annotations

from typing import Any

import pytest

from minimizer.engine.between.difference import (
    COURSE,
    Change,
    Comparison,
    agree_at,
    compared,
    difference_at_end,
    first_difference,
)
from minimizer.engine.between.noise import Noise
from minimizer.engine.child.exact_log import Entry, ExactLog, Look


def number(value: object) -> Entry:
    return {"type": type(value).__name__, "value": repr(value)}


def log(*states: dict[str, Any], event: str = "call exit", ends: bool = False) -> ExactLog:
    """A run that sees these states, one after each call, and, if it ``ends``, the last of them at its end."""
    looks, before = [], dict[str, Entry]()
    for unit, state in enumerate(states, 1):
        entries = {path: entry if isinstance(entry, dict) else number(entry) for path, entry in state.items()}
        changed = {path: entry for path, entry in entries.items() if before.get(path) != entry}
        gone = [path for path in before if path not in entries]
        looks.append(Look(event=event, unit=unit, number=unit, full=True, changed=changed, gone=gone))
        before = entries
    if ends:
        looks.append(Look(event="end", unit=len(states) + 1, full=True))
    return ExactLog(looks=looks, calls=len(states))


def tensor(*values: float, dtype: str = "torch.float32") -> Entry:
    return {"type": "Tensor", "dtype": dtype, "values": str(list(values))}


def test_equal_runs_differ_nowhere() -> None:
    assert first_difference(log({"n": 1}, {"n": 2}), log({"n": 1}, {"n": 2})) is None


def test_the_first_look_that_differs_counts() -> None:
    difference = first_difference(log({"n": 1}, {"n": 2}, {"n": 3}), log({"n": 1}, {"n": 1}, {"n": 1}))
    assert difference is not None
    assert (difference.look.number, difference.index) == (2, 1)
    assert difference.first == Change("n", number(2), number(1))
    assert difference.before is not None and difference.before.number == 1


def test_what_is_missing_on_one_side_differs() -> None:
    difference = first_difference(log({"n": 1}), log({}))
    assert difference is not None and difference.first.field == "presence"


@pytest.mark.parametrize(
    ("eager", "compiled"),
    [
        ({}, {"torch.cuda.get_rng_state(0)": {"type": "stream", "value": "a"}}),
        (
            {"box": {"type": "Box", "attributes": "a, b", "order": "a, b"}},
            {"box": {"type": "Box", "attributes": "a, b", "order": "b, a"}},
        ),
    ],
    ids=["random stream of a GPU that Dynamo started", "order in which attributes were set"],
)
def test_what_dynamo_may_do_otherwise_is_no_difference(eager: dict[str, Any], compiled: dict[str, Any]) -> None:
    assert first_difference(log(eager), log(compiled)) is None


def test_random_stream_in_another_state_is_a_difference() -> None:
    streams = [{"torch.get_rng_state()": {"type": "stream", "value": value}} for value in "ab"]
    assert first_difference(log(streams[0]), log(streams[1])) is not None


def test_what_a_script_holds_is_named_before_what_a_call_returns() -> None:
    difference = first_difference(
        log({"result": 2, "a.long.path": 2, "cache.n": 2}), log({"result": 1, "a.long.path": 1, "cache.n": 1})
    )
    assert difference is not None and difference.first.path == "cache.n"


def test_runs_that_part_are_a_difference_of_their_course() -> None:
    ends = (log({"n": 1}, {"n": 2}, ends=True), log({"n": 1}, ends=True))
    difference = first_difference(*ends)
    assert difference is not None and difference.is_of_course
    assert difference.first == Change(
        COURSE, {"type": COURSE, "value": "call 2, line 0"}, {"type": COURSE, "value": "the end of the script"}
    )
    assert not agree_at(*ends, difference)
    assert agree_at(ends[0], ends[0], difference)


def test_a_run_that_tells_no_end_ends_the_comparison() -> None:
    seen = compared(log({"n": 1}, {"n": 2}, ends=True), log({"n": 1}))
    assert seen.difference is None and seen.ended is not None and seen.ended.unit == 2


def test_where_two_eager_runs_part_the_comparison_ends() -> None:
    noise = Noise()
    noise.learn(log({"n": 1}, {"n": 2}), log({"n": 1}))
    seen = compared(log({"n": 1}, {"n": 2}), log({"n": 1}, {"n": 3}), noise)
    assert seen.difference is None and seen.ended is not None and seen.ended.unit == 2
    assert compared(log({"n": 1}), log({"n": 1})) == Comparison()


@pytest.mark.parametrize(
    ("eager", "compiled"),
    [
        (tensor(1.0), tensor(1.0000001)),
        (tensor(-1e9, 1.0), tensor(-1e9, 1.0000001)),
        (tensor(1.0, dtype="torch.bfloat16"), tensor(1.0078125, dtype="torch.bfloat16")),
        ({"type": "Tensor", "values": "#a", "norm": "1.0", "lean": "1.0"}, {"type": "Tensor", "values": "#b", "norm": "1.0", "lean": "1.0"}),
        ({"type": "Tensor", "dtype": "?", "values": "[nan, 0.5]"}, {"type": "Tensor", "dtype": "?", "values": "[0.5, 0.5]"}),
    ],
)  # fmt: skip
def test_the_last_bit_is_a_difference(eager: Entry, compiled: Entry) -> None:
    assert first_difference(log({"x": eager}), log({"x": compiled})) is not None


@pytest.mark.parametrize(
    ("eager", "compiled", "expected"),
    [
        (tensor(1.0), tensor(1.5), True),
        (number(0.5), number(0.6), True),
        (tensor(1.0), tensor(1.0, dtype="torch.float64"), False),
        (tensor(1, dtype="torch.int64"), tensor(2, dtype="torch.int64"), False),
        (tensor(1.0), {}, False),
        (number(1), number(2), False),
        (number("0.5"), number("0.6"), False),
    ],
)
def test_only_values_of_floating_numbers_are_arithmetic(eager: Entry, compiled: Entry, *, expected: bool) -> None:
    assert Change("x", eager, compiled).is_arithmetic is expected


def test_the_end_of_two_runs() -> None:
    ends = difference_at_end(log({"n": 1, "m": 1}, event="end"), log({"n": 2, "m": 1}, event="end"))
    assert [change.path for change in ends] == ["n"]


def test_an_error_of_the_compilers_own_is_no_silent_fault() -> None:
    raised = {"raised": {"type": "exception", "value": "RuntimeError"}}
    refused = {"raised": {"type": "exception", "value": "RuntimeError", "of": "compiler"}}
    seen = compared(log(raised), log(refused))
    assert seen.difference is None and seen.ended is not None
    assert first_difference(log({"raised": {"type": "exception", "value": ""}}), log(raised)) is not None
