"""The first difference of two runs, and what is none."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from minimizer.engine.between.difference import (
    Change,
    Comparison,
    Difference,
    Noise,
    agree_at,
    compared,
    difference_at_end,
    first_difference,
    is_gross,
)
from minimizer.engine.child.exact_log import Entry, ExactLog, Look


def number(value: object) -> Entry:
    return {"type": type(value).__name__, "value": repr(value)}


def log(*states: dict[str, Any], event: str = "call exit") -> ExactLog:
    """A run that sees these states, one after each call."""
    looks, before = [], dict[str, Entry]()
    for unit, state in enumerate(states, 1):
        entries = {path: entry if isinstance(entry, dict) else number(entry) for path, entry in state.items()}
        changed = {path: entry for path, entry in entries.items() if before.get(path) != entry}
        gone = [path for path in before if path not in entries]
        looks.append(Look(event=event, unit=unit, number=unit, full=True, changed=changed, gone=gone))
        before = entries
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


def test_other_random_numbers_are_no_difference_of_state() -> None:
    eager, compiled = (
        {"w.grad": tensor(value), "torch.get_rng_state()": {"type": "stream", "value": str(value)}}
        for value in (1.0, 2.0)
    )
    drawn, counted = first_difference(log(eager), log(compiled)), first_difference(log({"n": 1}), log({"n": 2}))
    assert drawn is not None and not drawn.is_of_state
    assert counted is not None and counted.is_of_state


def test_what_a_script_holds_is_named_before_what_a_call_returns() -> None:
    difference = first_difference(
        log({"result": 2, "a.long.path": 2, "cache.n": 2}), log({"result": 1, "a.long.path": 1, "cache.n": 1})
    )
    assert difference is not None and difference.first.path == "cache.n"


def test_what_differs_without_the_compiler_is_noise_with_all_that_is_in_it() -> None:
    keyed = [{"store": {"type": "dict", "keys": f"[{key}]"}, f"store[{key}].n": 1} for key in (10, 20, 30)]
    noise = Noise()
    noise.learn(log(keyed[0]), log(keyed[1]))
    assert first_difference(log(keyed[0]), log(keyed[2])) is not None
    assert first_difference(log(keyed[0]), log(keyed[2]), noise) is None


@pytest.mark.parametrize("path", ["t[0]", "t.a.b", "list(t)[0]", "list(t.values())[1].n", "t"])
def test_the_parts_of_what_is_noise_are_noise(path: str) -> None:
    noise = Noise()
    noise.learn(log({"t": 1}), log({"t": 2}))
    assert noise.covers(path)
    assert not noise.covers("other" + path.removeprefix("t"))


def test_runs_that_part_unseen_are_no_evidence() -> None:
    assert first_difference(log({"n": 1}, {"n": 2}), log({"n": 1})) is None


def test_where_two_eager_runs_part_the_comparison_ends() -> None:
    noise = Noise()
    noise.learn(log({"n": 1}, {"n": 2}), log({"n": 1}))
    assert first_difference(log({"n": 1}, {"n": 2}), log({"n": 1}, {"n": 3}), noise) is None


def test_rounding_does_not_end_the_comparison() -> None:
    eager, compiled = log({"x": tensor(1.0), "n": 1}, {"n": 2}), log({"x": tensor(1.0000001), "n": 1}, {"n": 3})
    difference = first_difference(eager, compiled)
    assert difference is not None and [change.path for change in difference.changes] == ["n"]
    assert difference.is_behind_rounding and difference.may_be_rounding
    beside = first_difference(log({"x": tensor(1.0), "n": 1}), log({"x": tensor(1.0000001), "n": 2}))
    assert beside is not None and beside.is_behind_rounding


@pytest.mark.parametrize(
    ("eager", "compiled", "redrawn", "is_evidence"),
    [
        (tensor(1e-8), tensor(0.0), tensor(5e-9), False),
        (tensor(1e-8), tensor(0.0), tensor(9.9e-9), True),
        (tensor(137.0), tensor(136.0), tensor(137.00002), True),
        (number(3), number(4), number(5), False),
        (number(3), number(4), number(3), True),
        (number(3), number(4), {}, False),
        ({"type": "list", "length": "1", "items": "[0.5]"}, {"type": "list", "length": "0", "items": "[]"},
         {"type": "list", "length": "1", "items": "[0.6]"}, True),
    ],
)  # fmt: skip
def test_what_redrawn_roundings_change_as_well_is_no_evidence(
    eager: Entry, compiled: Entry, redrawn: Entry, is_evidence: bool
) -> None:
    logs = [log({"x": entry} if entry else {}) for entry in (eager, compiled, eager, redrawn)]
    assert (first_difference(logs[0], logs[1], redrawn=logs[2:]) is not None) is is_evidence
    assert (
        agree_at(logs[0], logs[1], Difference(logs[1].looks[0], (Change("x", eager, compiled),), None), logs[2:])
        is not is_evidence
    )


def test_parts_of_what_redrawn_roundings_replace_are_no_evidence() -> None:
    states: list[dict[str, Any]] = [
        {"best": {"type": "list", "length": str(count)}, f"best[{count}]": 1} for count in (1, 2, 3)
    ]
    eager, compiled, redrawn = map(log, states)
    assert first_difference(eager, compiled) is not None
    assert first_difference(eager, compiled, redrawn=[redrawn]) is None


def test_a_comparison_says_where_it_ended() -> None:
    raised = {"raised": {"type": "exception", "value": "RuntimeError", "of": "compiler"}}
    one, two = log({"n": 1}, {"n": 2}), log({"n": 1})
    noise = Noise()
    noise.learn(one, two)
    for seen in (
        compared(one, two),
        compared(one, one, noise),
        compared(one, one, redrawn=[one, two]),
        compared(one, log({"n": 1}, raised)),
    ):
        assert seen.difference is None
        assert seen.ended is not None and seen.ended.unit == 2
    assert compared(one, one, redrawn=[one]) == Comparison()


@pytest.mark.parametrize(
    ("result", "argument", "expected"),
    [((2e-7, 0.0), 1.0, False), ((0.5, 0.0), 1.0, True), ((0.5, 0.0), 100.0, False)],
)
def test_what_is_small_beside_the_arguments_of_a_call_is_not_gross(
    result: tuple[float, float], argument: float, expected: bool
) -> None:
    whole = {"type": "Tensor", "dtype": "torch.int64", "values": "#03e68"}
    eager, compiled = (
        log({"result": tensor(value), "args[0]": tensor(argument), "args[1]": whole}) for value in result
    )
    difference = first_difference(eager, compiled)
    assert difference is not None and is_gross(difference, eager) is expected
    assert not is_gross(replace(difference, is_behind_rounding=True), eager)


def test_what_is_small_beside_what_it_changes_is_not_gross() -> None:
    for value, expected in ((1.01, False), (1.1, True)):
        eager, compiled = log({"loss": 1.0}), log({"loss": value})
        difference = first_difference(eager, compiled)
        assert difference is not None and is_gross(difference, eager) is expected


@pytest.mark.parametrize(
    ("one", "two", "is_evidence"),
    [
        ("[nan, 0.5]", "[nan, 0.50000001]", False),
        ("[nan, 0.5]", "[nan, 0.6]", True),
        ("[0.5, 0.5]", "[0.5, nan]", True),
        ("[0.5, inf]", "[0.5, 0.5]", True),
        ("[(0.5+0.5j), (0.5+1e-09j)]", "[(0.5+0.5j), (0.5-1e-09j)]", False),
    ],
)
def test_nan_and_complex_numbers(one: str, two: str, is_evidence: bool) -> None:
    eager, compiled = (log({"x": {"type": "Tensor", "dtype": "?", "values": text}}) for text in (one, two))
    assert (first_difference(eager, compiled) is not None) is is_evidence


@pytest.mark.parametrize(
    ("eager", "compiled"),
    [
        (tensor(1.0), tensor(1.5)),
        (tensor(1.0), tensor(1.0, dtype="torch.float64")),
        (tensor(1.0, 2.0), tensor(1.0)),
        ({"type": "Tensor", "values": "#a", "norm": "1.0", "lean": "1.0"}, {"type": "Tensor", "values": "#b", "norm": "1.0", "lean": "1.3"}),
    ],
)  # fmt: skip
def test_more_than_rounding_is_a_difference(eager: Entry, compiled: Entry) -> None:
    assert first_difference(log({"x": eager}), log({"x": compiled})) is not None


def test_the_end_of_two_runs() -> None:
    ends = difference_at_end(
        log({"n": 1, "m": 1, "x": tensor(1.0)}, event="end"), log({"n": 2, "m": 1, "x": tensor(1.0000001)}, event="end")
    )
    assert [change.path for change in ends] == ["n"]


def test_an_error_of_the_compilers_own_is_no_silent_fault() -> None:
    raised = {"raised": {"type": "exception", "value": "RuntimeError"}}
    refused = {"raised": {"type": "exception", "value": "RuntimeError", "of": "compiler"}}
    assert first_difference(log(raised), log(refused)) is None
    assert first_difference(log({"raised": {"type": "exception", "value": ""}}), log(raised)) is not None
