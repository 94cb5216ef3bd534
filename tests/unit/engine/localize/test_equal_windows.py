"""Where else the operators at fault fail, in one graph of equal blocks."""

from __future__ import annotations

from dataclasses import replace
from typing import cast

import pytest
from fake_oracle import FakeOracle
from toy_programs import META

from minimizer.engine.localize.equal_windows import EqualWindows, equal_windows
from minimizer.engine.localize.localize import Localized
from minimizer.engine.oracle.oracle import Oracle
from minimizer.engine.program.arguments import Ref
from minimizer.engine.program.model import Input, Node, Program
from minimizer.engine.program.regions import cut
from minimizer.report.culprit import Layer

BLOCK = ("norm", "linear", "relu")


def model(count: int) -> Program:
    """Blocks of three modules, one after the other."""
    nodes: list[Node] = []
    for number in range(count):
        for name in BLOCK:
            before = nodes[-1].name if nodes else "x"
            path = f"layers.{number}.{name}"
            nodes.append(
                Node(f"{name}_{number}", name, (Ref(before),), meta=META, module=path, module_class=name.title())
            )
    return Program(inputs=(Input("x", META, golden="x"),), nodes=tuple(nodes), outputs=(nodes[-1].name,))


def asked(
    program: Program, wrong: set[str], *, layers: tuple[Layer, ...] = (), batches: int = 99
) -> tuple[EqualWindows, FakeOracle]:
    """Of a program whose ``relu`` is localized in its first wrong block; these nodes fail when they are judged."""
    first = next(index for index, node in enumerate(program.nodes) if node.name in wrong)
    oracle = FakeOracle(lambda candidate: any(node.name in wrong for node in candidate.nodes))
    located = Localized(cut(program, first, first + 1), (), layers, confirmed=True)
    left = iter([False] * batches)
    found = equal_windows(program, located, cast(Oracle, oracle), is_over=lambda: next(left, True), tell=lambda _: None)
    return found, oracle


def test_the_blocks_in_which_the_same_operators_fail_are_a_set() -> None:
    found, oracle = asked(model(6), {"relu_1", "relu_2", "relu_4"})
    assert found.instances is not None and found.instances.compared == "operators"
    assert sorted(found.instances.wrong) == ["layers.1", "layers.2", "layers.4"]
    assert found.instances.right == ["layers.0", "layers.3", "layers.5"]
    assert [region.path for region in found.wrong] == ["layers.2.relu", "layers.4.relu"]
    assert len(oracle.judged) == 5 and {program.size for program in oracle.judged} == {1}


def test_an_operator_that_fails_in_an_unequal_module_is_named_by_its_path() -> None:
    program = model(2)
    other = Node("other", "relu", (Ref("relu_1"),), meta=META, module="head.act", module_class="Relu")
    found, _ = asked(replace(program, nodes=(*program.nodes, other), outputs=("other",)), {"relu_0", "relu_1", "other"})
    assert found.instances is not None
    assert found.instances.wrong == ["head.act", "layers.0", "layers.1"]


def test_what_fails_alone_in_a_layer_that_is_right_as_a_whole_is_unclear() -> None:
    right = Layer(path="layers.1", order=1, verdict="good")
    found, _ = asked(model(3), {"relu_0", "relu_1"}, layers=(right,))
    assert found.instances is not None
    assert (found.instances.wrong, found.instances.right, found.instances.unclear) == (
        ["layers.0"],
        ["layers.2"],
        ["layers.1"],
    )
    assert found.wrong == ()


def test_what_was_not_asked_in_time_is_claimed_of_nothing() -> None:
    found, oracle = asked(model(12), {f"relu_{n}" for n in range(12)}, batches=1)
    assert len(oracle.judged) == 8 and found.instances is not None
    assert found.instances.unclear == [f"layers.{n}" for n in (9, 10, 11)]


@pytest.mark.parametrize("count", [0, 1])
def test_one_place_is_no_set(count: int) -> None:
    program = model(1)
    found, oracle = asked(program, {program.nodes[2 * count].name})
    assert found == EqualWindows((), None) and not oracle.judged
