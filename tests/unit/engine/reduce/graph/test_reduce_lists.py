"""List arguments shrink element by element, those of one length together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from fake_check import no_literal
from toy_programs import META, tidy, well_formed

from minimizer.engine.program.arguments import Ref
from minimizer.engine.program.model import Input, Node, Program
from minimizer.engine.reduce.graph import Reduced, reduce
from minimizer.engine.reduce.graph.passes.lists import elements, without_elements

NAMES = tuple("abcdef")
INPUTS = tuple(Input(name, META, golden=name) for name in NAMES)
REFS = [Ref(name) for name in NAMES]


def foreach(target: str, *, scalars: list[float] | None = None) -> Program:
    """Adds to each of ``a`` to ``e`` the next one, and to ``f`` its flip; all are returned."""
    flipped = Node("flipped", ".flip", (Ref("f"), 0), meta=META)
    args = (REFS, [*REFS[1:], Ref("flipped")], *([scalars] if scalars else []))
    return Program(inputs=INPUTS, nodes=(flipped, Node("added", target, args)), outputs=NAMES)


def reduced(program: Program, pair: tuple[str, str]) -> Reduced[Program]:
    """Reduced while the list operator still combines a pair of values, by target."""

    def fails(candidate: Program) -> bool:
        well_formed(candidate)
        made_by = {node.name: node.target for node in candidate.nodes}
        for node in candidate.nodes:
            if "_foreach_" in node.target and len(node.args) == 2 and len(node.args[0]) == len(node.args[1]):
                pairs = list(zip(*node.args[:2], strict=True))
                return any((made_by.get(x.name, "input"), made_by.get(y.name, "input")) == pair for x, y in pairs)
        return False

    found = reduce(program, check=lambda programs: [fails(program) for program in programs], literal=no_literal)
    tidy(found.best)
    return found


def test_two_lists_lose_their_elements_in_pairs() -> None:
    found = reduced(foreach("torch._foreach_add_"), ("input", ".flip"))
    *_, added = found.best.nodes
    assert [len(values) for values in added.args] == [1, 1]
    assert len(found.best.inputs) == 1
    assert found.best.size == 2
    assert found.one_minimal


def test_numbers_beside_the_tensors_go_with_them() -> None:
    program = foreach("torch._foreach_addcmul_", scalars=[0.5, 1.0, 1.5, 2.0, 2.5, 3.0])
    shorter = without_elements(program, [("added", index) for index in (0, 2, 3, 4, 5)])
    assert shorter is not None
    assert shorter.nodes[-1].args == ([Ref("b")], [Ref("c")], [1.0])
    assert ([i.name for i in shorter.inputs], shorter.outputs) == (["b", "c"], ("b", "c"))


def test_parts_of_a_result_keep_their_places() -> None:
    flipped, added = foreach("torch._foreach_add").nodes
    part = Node("part", "operator.getitem", (Ref("added"), 4), meta=META)
    program = replace(foreach("torch._foreach_add"), nodes=(flipped, added, part), outputs=("part",))
    shorter = without_elements(program, [("added", index) for index in (0, 2, 5)])
    assert shorter is not None
    assert shorter.node("part").args == (Ref("added"), 2)
    assert without_elements(program, [("added", 4)]) is None


def test_what_is_joined_is_of_another_shape_without_a_part() -> None:
    joined, sliced = (
        Node("joined", "torch.cat", (REFS,), meta=META),
        Node("first", "operator.getitem", (Ref("joined"), 4), meta=META),
    )
    program = Program(inputs=INPUTS, nodes=(joined, sliced), outputs=("first",))
    shorter = without_elements(program, [("joined", 1)])
    assert shorter is not None
    assert [len(shorter.node("joined").args[0]), shorter.node("first").args[1]] == [5, 4]
    assert [node.meta for node in shorter.nodes] == [None, None]


def test_no_list_becomes_empty_and_sizes_are_no_tensors() -> None:
    program = foreach("torch._foreach_add_")
    assert without_elements(program, [("added", index) for index in range(6)]) is None
    size = Node("size", ".size", (Ref("a"), 0), number=8)
    viewed = Node("viewed", ".view", (Ref("a"), [Ref("size"), Ref("size")]), meta=META)
    assert list(elements(replace(program, nodes=(size, viewed), outputs=("viewed",)))) == []


def test_every_element_is_offered_once() -> None:
    found: Sequence[tuple[str, int]] = list(elements(foreach("torch._foreach_add_")))
    assert found == [("added", index) for index in range(6)]
