"""Parts of a graph: regions cover it, and a window has all that it needs and returns all that is used."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sample_graphs import chain, model
from toy_programs import META, well_formed

from minimizer.engine.program.arguments import Ref
from minimizer.engine.program.model import Input, Node, Program, TensorMeta
from minimizer.engine.program.regions import SMALL, Cutter, Region, cut, split

# splitting ------------------------------------------------------------------------------------------------------------

MODULES = st.sampled_from(["", "a", "b", "a.x", "a.y", "a.x.p", "a.x.q", "b.x"])


@given(st.lists(MODULES, min_size=1, max_size=60))
def test_regions_cover_all_nodes_in_order(modules: list[str]) -> None:
    nodes = chain([("torch.a", module) for module in modules]).nodes
    regions = split(nodes, 0, len(nodes))
    assert [region.start for region in regions] == [0, *(region.stop for region in regions[:-1])]
    assert regions[-1].stop == len(nodes)
    for region in regions:
        assert region.size > 0
        inside = [node.module for node in nodes[region.start : region.stop]]
        assert all(path == region.path or path.startswith(f"{region.path}.") or not region.path for path in inside)


def test_regions_follow_modules_and_name_their_class() -> None:
    regions = split(model(6).nodes, 0, len(model(6).nodes))
    assert [region.path for region in regions if region.size > 2] == [f"blocks.{i}" for i in range(6)]
    small = split(chain([("torch.a", "net.act")] * SMALL).nodes, 0, SMALL)
    assert small == [Region(0, SMALL, "net.act", "Act")]


def test_crumbs_between_blocks_get_no_trial_of_their_own() -> None:
    nodes = chain([("torch.a", f"b{i // 3}") if i % 3 else ("torch.add", "") for i in range(30)]).nodes
    assert all(region.size > 2 for region in split(nodes, 0, 30))


# cutting --------------------------------------------------------------------------------------------------------------


def program_with(
    *nodes: Node, outputs: tuple[str, ...] = (), inputs: tuple[Input, ...] = (Input("x", META, golden="x"),)
) -> Program:
    return Program(inputs, nodes, outputs or (nodes[-1].name,))


def node(name: str, target: str, *args: Any, meta: TensorMeta | None = META) -> Node:
    return Node(name, target, args, meta=meta)


def test_a_cut_returns_what_the_rest_uses_and_what_nobody_uses() -> None:
    program = program_with(
        node("a", "torch.sin", Ref("x")),
        node("b", "torch.cos", Ref("a")),
        node("unused", "torch.tan", Ref("b")),
        node("c", "torch.exp", Ref("a")),
    )
    window = cut(program, 0, 3)
    assert window.outputs == ("a", "unused")
    well_formed(window)


def test_a_cut_keeps_outputs_of_the_program() -> None:
    program = program_with(node("a", "torch.sin", Ref("x")), node("b", "torch.cos", Ref("a")), outputs=("a", "b"))
    assert cut(program, 0, 2).outputs == ("a", "b")


def test_plain_numbers_stay_as_they_are() -> None:
    inputs = (Input("x", META, golden="x"), Input("n", None, code="3"))
    window = cut(
        program_with(node("a", "torch.sin", Ref("x")), node("b", ".mul", Ref("a"), Ref("n")), inputs=inputs), 1, 2
    )
    assert window.inputs == (Input("a", META, golden="a@b"), Input("n", None, code="3"))


def test_producers_of_what_is_no_tensor_come_along() -> None:
    """A size, or the tuple that ``split`` makes, cannot be a golden input."""
    program = program_with(
        node("parts", "torch.split", Ref("x"), 2, meta=None),
        node("one", "operator.getitem", Ref("parts"), 0),
        node("size", ".size", Ref("one"), 0, meta=None),
        node("more", "operator.add", Ref("size"), 1, meta=None),
        node("last", ".expand", Ref("one"), Ref("more")),
    )
    window = cut(program, 4, 5)
    assert [n.name for n in window.nodes] == ["size", "more", "last"]
    assert [i.name for i in window.inputs] == ["one"]
    assert window.outputs == ("last",)
    well_formed(window)
    assert [n.name for n in cut(program, 1, 2).nodes] == ["parts", "one"]


def test_a_value_changed_in_place_is_taken_as_it_was_at_that_moment() -> None:
    program = program_with(
        node("a", "torch.sin", Ref("x")),
        node("b", ".mul_", Ref("a"), 100),
        node("c", "torch.cos", Ref("a")),
        node("d", ".add_", Ref("a"), 1),
        node("e", "torch.exp", Ref("a")),
    )
    assert [i.golden for i in cut(program, 2, 3).inputs] == ["a@c"]
    assert [i.golden for i in cut(program, 4, 5).inputs] == ["a@e"]


ENTER = "torch.amp.autocast_mode._enter_autocast"
EXIT = "torch.amp.autocast_mode._exit_autocast"
GRAD = "torch._C._set_grad_enabled"


def autocast_program() -> Program:
    return program_with(
        node("before", "torch.sin", Ref("x")),
        node("enter", ENTER, "cpu", meta=None),
        node("inner", "torch.matmul", Ref("before"), Ref("before")),
        node("inner2", "torch.matmul", Ref("inner"), Ref("inner")),
        node("leave", EXIT, Ref("enter"), meta=None),
        node("after", "torch.matmul", Ref("inner2"), Ref("inner2")),
    )


@pytest.mark.parametrize(
    ("start", "stop", "names"),
    [
        (0, 1, ["before"]),
        (2, 3, ["enter", "inner", "leave"]),
        (3, 4, ["enter", "inner2", "leave"]),
        (3, 6, ["enter", "inner2", "leave", "after"]),
        (0, 3, ["before", "enter", "inner", "leave"]),
        (1, 5, ["enter", "inner", "inner2", "leave"]),
        (5, 6, ["after"]),
    ],
)
def test_trap_11_autocast_that_is_open_comes_along_and_is_closed(start: int, stop: int, names: list[str]) -> None:
    window = cut(autocast_program(), start, stop)
    assert [n.name for n in window.nodes] == names
    well_formed(window)


def test_nested_autocast_is_kept_in_order() -> None:
    program = program_with(
        node("outer", ENTER, "cpu", meta=None),
        node("inner", ENTER, "cpu", False, meta=None),
        node("a", "torch.matmul", Ref("x"), Ref("x")),
        node("leave_inner", EXIT, Ref("inner"), meta=None),
        node("b", "torch.matmul", Ref("x"), Ref("x")),
        node("leave_outer", EXIT, Ref("outer"), meta=None),
        outputs=("a", "b"),
    )
    assert [n.name for n in cut(program, 2, 3).nodes] == ["outer", "inner", "a", "leave_inner", "leave_outer"]
    assert [n.name for n in cut(program, 4, 5).nodes] == ["outer", "b", "leave_outer"]


def test_the_grad_mode_in_force_comes_along() -> None:
    program = program_with(
        node("off", GRAD, False, meta=None),
        node("a", "torch.sin", Ref("x")),
        node("on", GRAD, True, meta=None),
        node("b", "torch.cos", Ref("a")),
        outputs=("a", "b"),
    )
    assert [n.name for n in cut(program, 1, 2).nodes] == ["off", "a"]
    assert [n.name for n in cut(program, 3, 4).nodes] == ["on", "b"]
    assert [n.name for n in cut(program, 1, 4).nodes] == ["off", "a", "on", "b"]


# cost -----------------------------------------------------------------------------------------------------------------


def one_module_a_node(count: int) -> Program:
    return chain([("torch.a", f"m{index}") for index in range(count)])


def autocast_in_every_module(count: int) -> Program:
    nodes = []
    for index in range(count // 3):
        nodes += [node(f"e{index}", ENTER, "cpu", meta=None), node(f"v{index}", "torch.sin", Ref("x"))]
        nodes.append(node(f"l{index}", EXIT, Ref(f"e{index}"), meta=None))
    return program_with(*nodes)


def one_size_for_all(count: int) -> Program:
    """Every node uses a number that comes along into each cut."""
    size = node("size", ".size", Ref("x"), 0, meta=None)
    return program_with(size, *(node(f"v{index}", ".view", Ref("x"), Ref("size")) for index in range(count - 1)))


@pytest.mark.parametrize("made", [one_module_a_node, autocast_in_every_module, one_size_for_all])
def test_the_cost_of_all_cuts_goes_with_the_graph(
    made: Callable[[int], Program], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Counted in looks at nodes; every cut used to look at all of the graph."""
    looks = 0
    refs = Node.refs

    def counted(one: Node) -> Iterator[str]:
        nonlocal looks
        looks += 1
        return refs(one)

    monkeypatch.setattr(Node, "refs", counted)
    for count in (300, 3000):
        looks, program = 0, made(count)
        cutter = Cutter(program)
        for start in range(0, count - 3, 3):
            cutter.cut(start, start + 3)
        assert looks <= 8 * count


def test_modules_are_split_where_their_paths_part(monkeypatch: pytest.MonkeyPatch) -> None:
    """However deep that is: each level of a path used to take a look at every node."""
    looks = 0

    class Path(str):
        def split(self, *arguments: Any) -> list[str]:  # type: ignore[override]
            nonlocal looks
            looks += 1
            return super().split(*arguments)

    deep = "a." * 50
    nodes = [replace(one, module=Path(deep + one.module)) for one in one_module_a_node(100).nodes]
    assert len(split(nodes, 0, 100)) > 1
    assert looks <= 8 * len(nodes)
