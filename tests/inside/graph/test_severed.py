"""Graphs without their collectives: what other ranks said is an input, and what this rank says a result."""

from __future__ import annotations

import operator
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as functional_collectives
from torch import Tensor, fx
from torch.distributed._functional_collectives import AsyncCollectiveTensor
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Partial, Placement, Replicate
from torch.testing._internal.distributed.fake_pg import FakeStore

from minimizer.inside.graph.local import MOST, LocalGraphs, parts
from minimizer.inside.graph.severed import SeveredGraph, Unmatched, Unseverable
from minimizer.inside.values.communication import Heard

FUNCTIONAL = torch.ops._c10d_functional
SUM = ("all_reduce", "world", "sum")


@pytest.fixture
def world() -> Iterator[str]:
    """The name of a group of two ranks, of which none but ours is there."""
    dist.init_process_group("fake", rank=0, world_size=2, store=FakeStore())
    yield dist.group.WORLD.group_name  # type: ignore[union-attr]
    dist.destroy_process_group()


def graph_of(make: Callable[[fx.Graph, fx.Node], Any]) -> fx.GraphModule:
    """A graph of one input; ``make`` returns its results."""
    graph = fx.Graph()
    x = graph.placeholder("x")
    graph.output(make(graph, x))
    for node in graph.nodes:
        node.meta["example_value"] = torch.ones(2)
    return fx.GraphModule(torch.nn.Module(), graph)


def summed(graph: fx.Graph, value: fx.Node, group: str = "world", op: str = "sum") -> fx.Node:
    made = graph.call_function(FUNCTIONAL.all_reduce, (value, op, group))
    return graph.call_function(FUNCTIONAL.wait_tensor, (made,))


def heard(entered: Tensor, result: Tensor, signature: tuple[str, str, str] = SUM) -> Heard:
    return Heard(*signature, (entered,), [result], None)


def twice(graph: fx.Graph, x: fx.Node) -> tuple[fx.Node, ...]:
    first = summed(graph, graph.call_method("sin", (x,)))
    second = summed(graph, graph.call_method("cos", (first,)))
    return (graph.call_method("neg", (second,)),)


X = torch.tensor([1.0, 2.0])


def test_what_collectives_return_is_an_input_and_what_they_are_given_a_result() -> None:
    severed = SeveredGraph(graph_of(twice))
    one, two = torch.tensor([0.5, 0.25]), torch.tensor([3.0, 4.0])
    returned, given = severed.apart([X], [heard(X.sin(), one), heard(one.cos(), two)])
    torch.testing.assert_close(returned, [one, two])
    torch.testing.assert_close(given, [X.sin(), one.cos()])
    torch.testing.assert_close(severed.module(X, *returned), (-two, X.sin(), one.cos()))


def test_neither_what_is_given_nor_what_is_returned_is_an_alias() -> None:
    severed = SeveredGraph(graph_of(lambda graph, x: (summed(graph, x),)))
    returned, _ = severed.apart([X], [heard(X, 2 * X)])
    result, entered = severed.module(X, *returned)
    assert len({tensor.data_ptr() for tensor in (X, *returned, result, entered)}) == 4


def test_equal_collectives_in_another_order_are_told_apart_by_what_they_were_given() -> None:
    def both(graph: fx.Graph, x: fx.Node) -> tuple[fx.Node, ...]:
        return summed(graph, graph.call_method("sin", (x,))), summed(graph, graph.call_method("cos", (x,)))

    one, two = torch.tensor([0.5, 0.25]), torch.tensor([3.0, 4.0])
    returned, _ = SeveredGraph(graph_of(both)).apart([X], [heard(X.cos(), two), heard(X.sin(), one)])
    torch.testing.assert_close(returned, [one, two])


def chained(graph: fx.Graph, x: fx.Node) -> tuple[fx.Node, ...]:
    return (summed(graph, summed(graph, x)),)


def test_equal_collectives_of_which_one_depends_on_the_other_come_in_that_order() -> None:
    """Also where a fault, or a value that is no number, lies before the first."""
    for entered in (torch.tensor([30.0, 40.0]), X * torch.nan, X):
        one, two = torch.tensor([30.0, 41.0]), torch.tensor([3.0, 4.0])
        returned, _ = SeveredGraph(graph_of(chained)).apart([X], [heard(entered, one), heard(one, two)])
        torch.testing.assert_close(returned, [one, two])


def test_a_place_that_the_values_contradict_is_not_believed() -> None:
    one, two = torch.tensor([30.0, 41.0]), torch.tensor([3.0, 4.0])
    with pytest.raises(Unmatched, match="cannot be told apart"):
        SeveredGraph(graph_of(chained)).apart([X], [heard(one, two), heard(X, one)])


@pytest.mark.parametrize("error", [0.0, 1e-6], ids=["bits", "rounding"])
def test_equal_collectives_of_which_two_were_merged_share_a_result(error: float) -> None:
    """And the second of them takes no other's, though that one is left."""

    def three(graph: fx.Graph, x: fx.Node) -> tuple[fx.Node, ...]:
        twice = [summed(graph, graph.call_method("sin", (x,))) for _ in range(2)]
        return *twice, summed(graph, graph.call_method("neg", (x,)))

    one, other = torch.tensor([0.5, 0.25]), torch.tensor([3.0, 4.0])
    for order in (1, -1):
        heard_of = [heard(X.sin() + error, one), heard(-X, other)][::order]
        returned, given = SeveredGraph(graph_of(three)).apart([X], heard_of)
        torch.testing.assert_close(returned, [one, one, other])
        torch.testing.assert_close(given, [X.sin() + error, X.sin() + error, -X])
        assert len({tensor.data_ptr() for tensor in (*returned, *given)}) == 6, "no alias of another"


def test_collectives_of_unlike_values_do_not_share_a_result() -> None:
    """A pass that takes them for one is not judged by what it returned for both."""

    def two(graph: fx.Graph, x: fx.Node) -> tuple[fx.Node, ...]:
        return summed(graph, x), summed(graph, graph.call_function(torch.add, (x, 1e-6)))

    with pytest.raises(Unmatched, match="compiled code makes fewer"):
        SeveredGraph(graph_of(two)).apart([X], [heard(X, 2 * X)])


def test_equal_values_that_got_different_results_are_not_told_apart() -> None:
    def two(graph: fx.Graph, x: fx.Node) -> tuple[fx.Node, ...]:
        return summed(graph, x), summed(graph, x)

    with pytest.raises(Unmatched, match="cannot be told apart"):
        SeveredGraph(graph_of(two)).apart([X], [heard(X, 2 * X), heard(X, 3 * X)])


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (X.sin() + 1e-7, X.sin() + 1e-7),
        (X.sin(), X.sin() + 1e-6),
        (X.sin() * torch.nan, X.cos()),
        (X.sin() + torch.tensor([0, torch.inf]), X.cos()),
        (X.sin() + 0.3, X.cos()),
    ],
    ids=["tie", "rounding", "NaN", "infinity", "fault"],
)
def test_equal_collectives_that_cannot_be_told_apart_are_not(one: Tensor, other: Tensor) -> None:
    def both(graph: fx.Graph, x: fx.Node) -> tuple[fx.Node, ...]:
        return summed(graph, graph.call_method("sin", (x,))), summed(graph, graph.call_method("cos", (x,)))

    severed = SeveredGraph(graph_of(both))
    with pytest.raises(Unmatched, match=r"several all_reduce\(sum\) of \(2,\) that cannot be told apart"):
        severed.apart([X], [heard(other, 3 * X), heard(one, 2 * X)])
    same = [heard(X.sin(), X), heard(X.sin(), X)]
    assert len(SeveredGraph(graph_of(both)).apart([X], same)[0]) == 2, "it does not matter which is which"


def test_what_was_not_recorded_is_not_taken_for_a_collective() -> None:
    one = heard(X, 2 * X)
    one.unknown = "it does not wait for what one of its collectives returns"
    with pytest.raises(Unmatched, match="does not wait"):
        SeveredGraph(graph_of(lambda graph, x: (summed(graph, x),))).apart([X], [one])


def test_two_equal_collectives_of_one_value_may_be_one() -> None:
    def same(graph: fx.Graph, x: fx.Node) -> tuple[fx.Node, ...]:
        return summed(graph, x), summed(graph, x)

    returned, given = SeveredGraph(graph_of(same)).apart([X], [heard(X, 2 * X)])
    torch.testing.assert_close((returned, given), ([2 * X, 2 * X], [X, X]))


@pytest.mark.parametrize(
    ("compiled", "says"),
    [
        ([], r"eager makes all_reduce\(sum\) of \(2,\), which compiled code does not"),
        ([("all_reduce", "world", "max")], "eager makes"),
        ([("all_reduce", "other", "sum")], "eager makes"),
        ([("broadcast", "world", "0")], "eager makes"),
        ([SUM, ("all_reduce", "world", "max")], r"compiled code also makes all_reduce\(max\)"),
        ([SUM, SUM], r"compiled code also makes all_reduce\(sum\)"),
    ],
    ids=["dropped", "reduction", "group", "kind", "another", "doubled"],
)
def test_other_collectives_are_not_taken_for_those_of_the_graph(
    compiled: list[tuple[str, str, str]], says: str
) -> None:
    severed = SeveredGraph(graph_of(lambda graph, x: (summed(graph, x),)))
    with pytest.raises(Unmatched, match=says):
        severed.apart([X], [heard(X, X, one) for one in compiled])


def test_what_requires_a_gradient_behind_a_collective_does_so_without_it() -> None:
    module = graph_of(lambda graph, x: (summed(graph, x),))
    for node in module.graph.nodes:
        node.meta["example_value"] = torch.ones(2, requires_grad=True)
    severed = SeveredGraph(module)
    returned, _ = severed.apart([X.clone().requires_grad_()], [heard(X, 2 * X)])
    assert [(value.requires_grad, value.is_leaf) for value in returned] == [(True, False)]
    assert severed.module(X, *returned)[0].requires_grad


def test_only_the_root_of_a_broadcast_gives_what_counts(world: str) -> None:
    def sent(root: int) -> fx.GraphModule:
        return graph_of(lambda graph, x: (graph.call_function(FUNCTIONAL.broadcast.default, (x, root, world)),))

    given = {}
    for root in (0, 1):
        one = heard(X, 3 * X, ("broadcast", world, str(root)))
        returned, given[root] = SeveredGraph(sent(root)).apart([X], [one])
        torch.testing.assert_close(returned, [3 * X])
    torch.testing.assert_close(given, {0: [X], 1: []})


def test_what_is_still_on_its_way_is_not_waited_for() -> None:
    """The script does later: until then other ranks may not have begun."""
    pending = AsyncCollectiveTensor(X)
    with pytest.raises(Unseverable, match="not yet written"):
        parts([pending])
    pending.completed = True
    assert [part is X or torch.equal(part, X) for part in parts([pending])] == [True]


def test_a_graph_that_raises_within_autocast_while_it_is_traced_leaves_that(world: str) -> None:
    graph = fx.Graph()
    x = graph.placeholder("x")
    graph.call_function(torch.amp.autocast_mode._enter_autocast, ("cpu", torch.bfloat16, True, True))
    graph.output((graph.call_function(operator.getitem, (x, 7)),))
    with pytest.raises(Unseverable, match="tracing it raised IndexError"):
        LocalGraphs(fx.GraphModule(torch.nn.Module(), graph)).severed([X])
    assert not torch.is_autocast_enabled("cpu")
    assert torch.autocast_increment_nesting() == 1
    assert torch.autocast_decrement_nesting() == 0


def test_each_size_and_placement_has_a_local_graph_of_its_own(world: str) -> None:
    mesh = init_device_mesh("cpu", (2,))
    whole = graph_of(lambda graph, x: (graph.call_function(torch.relu, (x,)),))
    graphs = LocalGraphs(whole)

    def local(size: int, *placements: Placement) -> SeveredGraph:
        return graphs.severed([DTensor.from_local(torch.ones(size), mesh, placements, run_check=False)])

    replicated, summed = local(2, Replicate()), local(2, Partial())
    # The same sizes, all of them: but a sum over ranks is to be made before it can be cut off below zero.
    assert (len(replicated.module.graph.output_node().args[0]), len(summed.module.graph.output_node().args[0])) == (
        1,
        2,
    )
    other = local(4, Replicate())
    assert other is not replicated
    assert (local(2, Replicate()), local(2, Partial()), local(4, Replicate())) == (replicated, summed, other)


def test_local_graphs_of_equal_numbers_of_other_types_differ(world: str) -> None:
    graph = fx.Graph()
    x, by = graph.placeholder("x"), graph.placeholder("by")
    graph.output((graph.call_function(torch.mul, (x, by)),))
    graphs = LocalGraphs(fx.GraphModule(torch.nn.Module(), graph))
    by_one = [graphs.severed([X, number]) for number in (1, 1.0, True)]
    assert len(set(map(id, by_one))) == 3


def test_few_local_graphs_are_kept_with_what_their_keys_know_by_its_id(world: str) -> None:
    class Mesh:
        """Known by its id."""

    graph = fx.Graph()
    x, _ = graph.placeholder("x"), graph.placeholder("mesh")
    graph.output((graph.call_function(torch.neg, (x,)),))
    graphs = LocalGraphs(fx.GraphModule(torch.nn.Module(), graph))
    mesh = Mesh()
    known = weakref.ref(mesh)
    first = graphs.severed([X, mesh])
    assert graphs.severed([X, mesh]) is first
    del mesh
    assert known() is not None
    for size in range(MOST):
        graphs.severed([torch.ones(3 + size), None])
    assert known() is None


def test_a_function_of_python_is_told_by_its_name() -> None:
    """One that waits is none of the operators that pass on what they wait for."""
    for function in (dist.all_reduce, functional_collectives.wait_tensor):
        with pytest.raises(Unseverable, match=f"^{function.__name__} cannot be taken out of it"):
            SeveredGraph(graph_of(lambda graph, x, called=function: (graph.call_function(called, (x,)),)))


def test_a_collective_with_a_side_effect_stays() -> None:
    with pytest.raises(Unseverable, match="all_reduce_ cannot be taken out"):
        SeveredGraph(graph_of(lambda graph, x: (graph.call_function(FUNCTIONAL.all_reduce_, (x, "sum", "world")),)))
