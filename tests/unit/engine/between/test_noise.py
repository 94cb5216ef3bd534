"""What moves between two runs without the compiler is no evidence, and only that; each with the fault that it must not hide."""

from __future__ import annotations

from typing import Any

import pytest
from test_difference import log, number

from minimizer.engine.between.difference import first_difference
from minimizer.engine.between.noise import Noise, parent_of, upwards

State = dict[str, Any]


def learned(one: State, two: State, *, event: str = "call exit") -> Noise:
    noise = Noise()
    noise.learn(log(one, event=event), log(two, event=event))
    return noise


def differing(eager: State, compiled: State, noise: Noise, *, event: str = "call exit") -> list[str]:
    difference = first_difference(log(eager, event=event), log(compiled, event=event), noise)
    return [change.path for change in difference.changes] if difference is not None else []


def test_a_time_stamp_is_noise_and_the_counter_beside_it_is_not() -> None:
    states = [
        {"seen": {"type": "dict", "keys": "['at', 'n']"}, "seen['at']": at, "seen['n']": 1} for at in (1.0, 2.0, 3.0)
    ]
    noise = learned(states[0], states[1])
    assert differing(states[0], states[2], noise) == []
    assert differing(states[0], {**states[2], "seen['n']": 0}, noise) == ["seen['n']"]
    reordered = {**states[2], "seen": {"type": "dict", "keys": "['n', 'at']"}}
    assert differing(states[0], reordered, noise) == ["seen"]


def test_what_is_in_an_object_whose_own_entry_moves_is_no_noise() -> None:
    states = [{"box": {"type": "Box", "state": state}, "box.n": 1} for state in "abc"]
    noise = learned(states[0], states[1])
    assert differing(states[0], {**states[2], "box.n": 2}, noise) == ["box.n"]


def test_items_under_keys_that_move_are_noise_but_their_number_and_those_under_stable_keys_are_not() -> None:
    def store(*keys: object, length: int = 2) -> State:
        entry = {"type": "dict", "length": str(length), "keys": str(list(keys))}
        return {
            "store": entry,
            **{f"store[{key!r}]": {"type": "Box"} for key in keys},
            **{f"store[{key!r}].n": 1 for key in keys},
        }

    noise = learned(store("a", 10), store("a", 20))
    assert differing(store("a", 10), store("a", 30), noise) == []
    assert differing(store("a", 10), {**store("a", 30), "store['a'].n": 2}, noise) == ["store['a'].n"]
    assert differing(store("a", 10), store("a", 30, 40, length=3), noise) == ["store"]


def test_places_in_a_list_of_another_length_say_nothing() -> None:
    def rows(*values: int) -> State:
        entry = {"type": "list", "length": str(len(values))}
        return {"rows": entry, **{f"rows[{i}]": value for i, value in enumerate(values)}}

    noise = learned(rows(1, 2), rows(1, 5, 2))
    assert differing(rows(1, 2), rows(7, 8, 9), noise) == []
    assert differing({**rows(1, 2), "n": 1}, {**rows(7, 8), "n": 2}, noise) == ["n"]


def test_what_moves_before_the_end_may_still_be_seen_there() -> None:
    noise = learned({"closed": 1}, {"closed": 2})
    assert differing({"closed": 1}, {"closed": 2}, noise) == []
    assert differing({"closed": 1}, {"closed": 2}, noise, event="end") == ["closed"]


def test_what_a_function_writes_while_the_compiler_runs_it_is_noise_and_all_else_is_not() -> None:
    noise = Noise()
    noise.add_written({"fakes": "register_fake"})
    assert differing({"fakes": 1, "n": 1}, {"fakes": 2, "n": 1}, noise) == []
    assert noise.excused == {("exact_compiler_writes", "fakes"): 1}
    assert differing({"fakes": 1, "n": 1}, {"fakes": 2, "n": 2}, noise) == ["n"]


def test_the_values_of_a_tensor_move_together() -> None:
    sides = [{"x": {"type": "Tensor", "values": f"#{i}", "norm": norm}} for i, norm in enumerate(("1", "1", "2"))]
    noise = learned(sides[0], sides[1])
    assert differing(sides[0], sides[2], noise) == []
    assert differing(sides[0], {"x": {**sides[2]["x"], "shape": "[2]"}}, noise) == ["x"]


@pytest.mark.parametrize(
    ("path", "parent"),
    [
        ("a", None), ("a.b", "a"), ("a['k.l[0]']", "a"), ("a[0].c", "a[0]"), ("list(a)[0]", "a"), ("list(a.values())[0]", "a"),
        ("a.<member>['k']", "a"), ("a.b['x'][3]", "a.b['x']"),
    ],
)  # fmt: skip
def test_the_parent_of_a_path(path: str, parent: str | None) -> None:
    assert parent_of(path) == parent


def test_all_that_contains_a_path() -> None:
    assert list(upwards("a.b[0]['k']")) == ["a.b[0]['k']", "a.b[0]", "a.b", "a"]


def test_a_number_that_moves_hides_no_other_type() -> None:
    noise = learned({"t": 1.0}, {"t": 2.0})
    assert differing({"t": 1.0}, {"t": number("x")}, noise) == ["t"]
