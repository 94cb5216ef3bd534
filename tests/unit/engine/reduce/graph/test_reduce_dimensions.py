"""Fewer dimensions, alone or together with a node."""

from __future__ import annotations

from collections.abc import Sequence

from minimizer.engine.program import render
from minimizer.engine.program.arguments import Ref
from minimizer.engine.program.model import Input, Node, Program, TensorMeta
from minimizer.engine.reduce.graph import reduce
from minimizer.engine.reduce.graph.passes.dimensions import without_dimension


def made(name: str, *shape: int) -> Input:
    return Input(name, TensorMeta(shape, "torch.float32"), code=f"torch.randn({', '.join(map(str, shape))})")


ATTENTION = Program(
    inputs=(made("q", 1, 2, 2, 2), made("k", 1, 2, 2, 2), made("v", 1, 2, 2, 2)),
    nodes=(
        Node("kt", ".permute", (Ref("k"), 0, 2, 3, 1)),
        Node("scores", "torch.matmul", (Ref("q"), Ref("kt"))),
        Node("scaled", "operator.mul", (Ref("scores"), 0.5)),
        Node("weights", ".softmax", (Ref("scaled"),), (("dim", -1),)),
        Node("mixed", "torch.matmul", (Ref("weights"), Ref("v"))),
    ),
    outputs=("mixed",),
)


def test_arguments_that_speak_of_dimensions_follow() -> None:
    program = Program(
        inputs=(made("x", 3, 4, 5),),
        nodes=(
            Node("a", "torch.transpose", (Ref("x"), 1, 2)),
            Node("b", ".permute", (Ref("a"), (0, 2, 1))),
            Node("c", ".reshape", (Ref("b"), 3, 20)),
            Node("d", "torch.softmax", (Ref("c"),), (("dim", 1),)),
            Node("e", ".sum", (Ref("d"), -1)),
        ),
        outputs=("e",),
    )

    flat = without_dimension(program)

    assert flat is not None
    assert [render.expression(node) for node in flat.nodes] == [
        "torch.transpose(x, 0, 1)",
        "a.permute((1, 0))",
        "b.reshape(20)",
        "torch.softmax(c, dim=0)",
        "d.sum(-1)",
    ]
    assert flat.inputs[0].code == "torch.randn(4, 5)"


def test_a_vector_keeps_its_dimension() -> None:
    program = Program(inputs=(made("x", 3),), nodes=(Node("a", "torch.relu", (Ref("x"),)),), outputs=("a",))

    assert without_dimension(program) is None


def test_a_pattern_that_differs_by_rank_loses_a_node_with_its_dimension() -> None:
    """As in attention: with a scale in four dimensions, in three as two ``bmm`` without one, and nothing between."""

    def fails(programs: Sequence[Program]) -> list[bool]:
        answers = []
        for program in programs:
            targets = [node.target for node in program.nodes]
            ranks = {len(item.meta.shape) for item in program.inputs if item.meta}
            full = targets == [node.target for node in ATTENTION.nodes] and ranks == {4}
            flat = targets == [".permute", "torch.bmm", ".softmax", "torch.bmm"] and ranks == {3}
            answers.append(full or flat)
        return answers

    reduced = reduce(ATTENTION, check=fails, literal=lambda key: None)

    assert [node.target for node in reduced.best.nodes] == [".permute", "torch.bmm", ".softmax", "torch.bmm"]
    assert reduced.one_minimal
