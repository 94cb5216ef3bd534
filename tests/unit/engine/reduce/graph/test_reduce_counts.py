"""How many trials a reduction takes. These are counts of questions, not timings: a ceiling that breaks is a regression."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from fake_check import FakeCheck, both, flows, has, in_a_row, meets, no_literal
from toy_programs import META, chain

from minimizer.engine.program.arguments import Ref
from minimizer.engine.program.model import Input, Node, Program, TensorMeta
from minimizer.engine.reduce.graph import reduce

WIDE = TensorMeta((8, 16), "torch.float32", (16, 1))


@pytest.mark.parametrize("jobs", [1, 2, 4])
@pytest.mark.parametrize("where", [0, 1, 374, 375, 600, 749])
def test_one_bad_node_in_750_is_alone_within_25_trials(where: int, jobs: int) -> None:
    targets = ["torch.sin"] * 750
    targets[where] = "torch.relu"
    executor = FakeCheck(has("torch.relu"))
    result = reduce(chain(targets), check=executor, literal=no_literal, jobs=jobs)
    alone = next(step.trial for step in result.history if step.nodes == 1)
    assert [n.target for n in result.best.nodes] == ["torch.relu"]
    print(f"one of 750 at {where}, jobs={jobs}: alone after {alone}, {result.trials} in all")
    assert alone <= 25
    assert result.one_minimal


@pytest.mark.parametrize("jobs", [1, 2])
@pytest.mark.parametrize("where", [0, 169, 170, 200, 339])
def test_a_window_of_five_in_344_stands_within_60_trials(where: int, jobs: int) -> None:
    window = ["torch.a", "torch.b", "torch.c", "torch.d", "torch.e"]
    targets = ["torch.sin"] * 344
    targets[where : where + 5] = window
    executor = FakeCheck(in_a_row(*window))
    result = reduce(chain(targets), check=executor, literal=no_literal, jobs=jobs)
    found = next(step.trial for step in result.history if step.nodes == 5)
    print(f"five of 344 at {where}, jobs={jobs}: found after {found}, {result.trials} in all")
    assert [n.target for n in result.best.nodes] == window
    assert found <= 30
    assert result.trials <= 60


# --- trap 8: nodes that fail together, far apart: upstream leaves 403 of 800 nodes after 1,922 queries -----------------------


@pytest.mark.parametrize("jobs", [1, 4])
@pytest.mark.parametrize("first", [0, 133, 399])
def test_trap_08_two_cooperating_nodes_400_apart_end_in_two_within_50_trials(first: int, jobs: int) -> None:
    program = chain(_sines(800, {first: "torch.a", first + 400: "torch.b"}))
    _ends_in(program, FakeCheck(flows("torch.a", "torch.b")), ["torch.a", "torch.b"], trials=50, jobs=jobs)


@pytest.mark.parametrize("jobs", [1, 4])
@pytest.mark.parametrize("places", [(0, 133, 266), (0, 200, 399), (50, 55, 350)])
def test_trap_08_three_cooperating_nodes_far_apart(places: tuple[int, ...], jobs: int) -> None:
    needed = ["torch.a", "torch.b", "torch.c"]
    program = chain(_sines(400, dict(zip(places, needed, strict=True))))
    _ends_in(program, FakeCheck(flows(*needed)), needed, trials=120, jobs=jobs)


@pytest.mark.parametrize("jobs", [1, 4])
@pytest.mark.parametrize(("left", "right"), [(0, 199), (50, 150)])
@pytest.mark.parametrize("interleaved", [False, True])
def test_trap_08_cooperating_nodes_in_two_branches(left: int, right: int, interleaved: bool, jobs: int) -> None:
    program = _branches(_sines(200, {left: "torch.a"}), _sines(200, {right: "torch.b"}), interleaved=interleaved)
    rule = meets("torch.add", "torch.a", "torch.b")
    _ends_in(program, FakeCheck(rule), ["torch.a", "torch.add", "torch.b"], trials=130, jobs=jobs)


@pytest.mark.parametrize("jobs", [1, 4])
@pytest.mark.parametrize("period", [2, 7, 200])
def test_trap_08_cooperating_nodes_with_changes_of_shape_between_them(period: int, jobs: int) -> None:
    """Every few nodes the chain becomes wide or narrow; what changes the shape for nothing does not run."""
    program = _breathing(400, period, {50: "torch.a", 338: "torch.b"})
    rule = both(flows("torch.a", "torch.b"), _runs)
    _ends_in(program, FakeCheck(rule), ["torch.a", "torch.b"], trials=70, jobs=jobs)


@pytest.mark.parametrize("jobs", [1, 4])
@pytest.mark.parametrize(("first", "second"), [(0, 100), (50, 199)])
def test_trap_08_cooperating_nodes_with_residual_connections_between_them(first: int, second: int, jobs: int) -> None:
    nodes: list[Node] = []
    stream = "x"
    for index, target in enumerate(_sines(200, {first: "torch.a", second: "torch.b"})):
        nodes.append(Node(f"v{index}", target, (Ref(stream),), meta=META))
        nodes.append(Node(f"r{index}", "torch.add", (Ref(stream), Ref(f"v{index}")), meta=META))
        stream = f"r{index}"
    program = Program(inputs=(Input("x", META, golden="x"),), nodes=tuple(nodes), outputs=(stream,))
    _ends_in(program, FakeCheck(flows("torch.a", "torch.b")), ["torch.a", "torch.b"], trials=50, jobs=jobs)


def _ends_in(program: Program, executor: FakeCheck, targets: list[str], *, trials: int, jobs: int) -> None:
    result = reduce(program, check=executor, literal=no_literal, jobs=jobs)
    print(f"{program.size} to {result.best.size} nodes, jobs={jobs}: {result.trials} trials")
    assert sorted(node.target for node in result.best.nodes) == targets
    assert result.one_minimal
    assert result.trials <= trials


def _sines(count: int, others: dict[int, str]) -> list[str]:
    return [others.get(index, "torch.sin") for index in range(count)]


def _branches(left: Sequence[str], right: Sequence[str], *, interleaved: bool) -> Program:
    """Two chains from one input, joined by an ``add``; one after the other, or node by node in turn."""
    sides: list[list[Node]] = []
    for side, targets in (("l", left), ("r", right)):
        names = ["x", *(f"{side}{index}" for index in range(len(targets)))]
        sides.append([Node(n, t, (Ref(p),), meta=META) for p, n, t in zip(names, names[1:], targets, strict=False)])
    turns = [node for pair in zip(*sides, strict=True) for node in pair]
    body = turns if interleaved else [*sides[0], *sides[1]]
    join = Node("join", "torch.add", (Ref(sides[0][-1].name), Ref(sides[1][-1].name)), meta=META)
    return Program(inputs=(Input("x", META, golden="x"),), nodes=(*body, join), outputs=("join",))


def _breathing(count: int, period: int, others: dict[int, str]) -> Program:
    """A chain in which every ``period``-th ``sin`` is a change of shape instead: wide, narrow, wide…"""
    nodes: list[Node] = []
    previous, meta = "x", META
    for index, target in enumerate(_sines(count, others)):
        if index % period == period - 1 and target == "torch.sin":
            meta = WIDE if meta is META else META
            target = "torch.wide" if meta is WIDE else "torch.narrow"
        nodes.append(Node(f"v{index}", target, (Ref(previous),), meta=meta))
        previous = f"v{index}"
    return Program(inputs=(Input("x", META, golden="x"),), nodes=tuple(nodes), outputs=(previous,))


def _runs(program: Program) -> bool:
    """Whether each change of shape gets the other shape."""
    is_wide = {i.name: i.meta is not None and i.meta.shape[-1:] == (16,) for i in program.inputs}
    for node in program.nodes:
        (source,) = node.refs()
        if node.target in ("torch.wide", "torch.narrow") and is_wide[source] == (node.target == "torch.wide"):
            return False
        is_wide[node.name] = {"torch.wide": True, "torch.narrow": False}.get(node.target, is_wide[source])
    return True
