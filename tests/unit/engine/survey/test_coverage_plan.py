"""The plan of coverage: which calls are compared first, and what a run leaves for the next."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minimizer.engine.child.protocol import GraphCalls
from minimizer.engine.survey.coverage_plan import Plan


def plan(*keys: list[int], watched: list[list[int]] | None = None, steps: int | None = None) -> Plan:
    """The plan after one run: the keys of each graph's calls, and the calls that were watched and compared."""
    watched = watched or [[] for _ in keys]
    graphs = [GraphCalls(keys=k, watched=w, compared=w) for k, w in zip(keys, watched, strict=True)]
    return Plan(steps).after(graphs)


def order(of: Plan) -> list[tuple[int, int]]:
    """All calls, the first to be compared first."""
    found: list[tuple[int, int]] = []
    total = sum(len(keys) for keys in of.keys)
    for count in range(1, total + 1):
        chosen = {(graph, call) for graph, calls in of.next_calls(count).items() for call in calls}
        found += sorted(chosen - set(found))
    return found


def test_first_calls_come_first_then_the_last_then_doublings() -> None:
    one_key = order(plan([0] * 20))
    assert one_key[:6] == [(0, 0), (0, 19), (0, 1), (0, 3), (0, 7), (0, 15)]
    assert sorted(one_key) == [(0, call) for call in range(20)]


def test_every_layer_comes_before_any_layer_comes_again() -> None:
    layers = order(plan([*range(64)] * 3))
    assert layers[:64] == [(0, call) for call in range(64)]
    assert set(layers[64:128]) == {(0, call) for call in range(128, 192)}


def test_what_was_watched_is_compared_again_once_nothing_else_is_left() -> None:
    seen = plan([0, 0, 0, 1], watched=[[0, 1, 3]])
    assert not seen.is_complete
    assert order(seen) == [(0, 2), (0, 0), (0, 3), (0, 1)]
    assert plan([0, 0, 0, 1], watched=[[0, 1, 2, 3]]).is_complete


def test_the_rest_is_drawn_the_same_way_each_time() -> None:
    keys = [0] * 200
    assert order(plan(keys)) == order(plan(keys))
    rest = [call for _, call in order(plan(keys))[9:]]
    assert rest != sorted(rest)


@pytest.mark.parametrize(("steps", "calls"), [(1, [0, 3]), (2, [0, 1, 3, 4]), (9, [0, 1, 2, 3, 4])])
def test_steps_bound_the_calls_of_each_key(steps: int, calls: list[int]) -> None:
    bounded = plan([0, 0, 0, 1, 1], steps=steps)
    assert bounded.next_calls(100) == {0: calls}
    assert plan([0, 0, 0, 1, 1], watched=[calls], steps=steps).is_complete


def test_keys_that_no_run_has_reached_are_counted() -> None:
    assert plan([0, 1, 2, 0], [3], watched=[[0, 3], []]).untouched == 3
    assert plan([0, 1], watched=[[0, 1]]).untouched == 0


@given(st.lists(st.lists(st.integers(0, 4), max_size=30), max_size=4), st.integers(0, 60))
def test_runs_of_any_length_cover_all_calls_once_before_any_twice(graphs: list[list[int]], count: int) -> None:
    keys = [[10 * index + key for key in each] for index, each in enumerate(graphs)]
    total = sum(map(len, keys))
    seen = plan(*keys)
    for _ in range(-(-total // max(1, count))):
        chosen = seen.next_calls(max(1, count))
        fresh = {(graph, call) for graph, calls in chosen.items() for call in calls} - seen.watched
        assert len(fresh) == min(max(1, count), total - len(seen.watched))
        run = [GraphCalls(keys=k, watched=chosen.get(i, []), compared=chosen.get(i, [])) for i, k in enumerate(keys)]
        seen = seen.after(run)
    assert seen.is_complete
    assert len(seen.compared) == total
    assert seen.untouched == 0


def test_a_run_with_fewer_calls_leaves_none_that_do_not_exist() -> None:
    longer = plan([0, 0, 0, 0], watched=[[0, 3]])
    shorter = longer.after([GraphCalls(keys=[0, 0], watched=[1], compared=[1])])
    assert shorter.compared == {(0, 0), (0, 1)}
    assert shorter.is_complete


def test_a_graph_that_a_run_compiles_and_never_calls_moves_no_other() -> None:
    """As a run without the compiler's caches does; the graph behind it was compared in the run before."""
    before = plan([0, 0], [1], [2], watched=[[0, 1], [0], [0]])
    run = [GraphCalls(keys=k, watched=w, compared=w) for k, w in (([0, 0], [0, 1]), ([1], [0]), ([], []), ([2], []))]
    after = before.after(run)
    assert (after.untouched, after.is_complete) == (0, True)
    assert after.compared == {(0, 0), (0, 1), (1, 0), (3, 0)}
    assert plan([0], [1], watched=[[0], []]).after(run).untouched == 1, "a call that no run watched stays open"
