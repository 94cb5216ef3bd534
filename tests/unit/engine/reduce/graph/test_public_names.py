"""Public names for aten lines, wherever the failure survives them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from minimizer.engine.program.arguments import Arg, Code, Ref
from minimizer.engine.program.model import Body, Input, Node, Program
from minimizer.engine.reduce.graph.public_names import is_public, publish

PROGRAM = Program(
    inputs=(Input("x", code="torch.ones(2)"),),
    nodes=(
        Node("a", "torch.ops.aten.log1p.default", (Ref("x"),)),
        Node("b", "torch.ops.aten._softmax.default", (Ref("a"), -1, False)),
        Node("c", "torch.ops.aten.relu.default", (Ref("b"),)),
    ),
    outputs=("c",),
    level="aot",
)


def targets(program: Program) -> list[str]:
    return [node.target for node in program.nodes]


def test_a_transform_that_was_taken_apart_is_nothing_a_person_would_write() -> None:
    entered = Node("n", "torch._functorch.predispatch._jvp_increment_nesting", ())
    assert is_public(PROGRAM)
    assert not is_public(replace(PROGRAM, nodes=(entered, *PROGRAM.nodes)))


def test_every_line_is_published_where_nothing_hides_the_failure() -> None:
    published = publish(PROGRAM, lambda programs: [True] * len(programs))

    assert targets(published) == ["torch.log1p", "torch.softmax", "torch.relu"]
    assert published.nodes[1].args == (Ref("a"), -1)


def test_a_line_whose_public_name_hides_the_failure_keeps_its_operator() -> None:
    def needs_the_operator(programs: Sequence[Program]) -> list[bool]:
        return ["torch.ops.aten.relu.default" in targets(program) for program in programs]

    published = publish(PROGRAM, needs_the_operator)

    assert targets(published) == ["torch.log1p", "torch.softmax", "torch.ops.aten.relu.default"]


def test_the_second_public_name_is_tried_where_the_first_does_not_exist() -> None:
    def has_no_torch_relu(programs: Sequence[Program]) -> list[bool]:
        return ["torch.relu" not in targets(program) for program in programs]

    assert targets(publish(PROGRAM, has_no_torch_relu))[2] == ".relu"


def test_nothing_changes_where_only_operators_fail() -> None:
    assert publish(PROGRAM, lambda programs: [False] * len(programs)) == PROGRAM


def test_a_function_that_torch_has_itself_needs_no_second_import() -> None:
    program = replace(
        PROGRAM,
        nodes=(Node("a", "torch.nn.functional.relu", (Ref("x"),)), Node("b", "torch.nn.functional.gelu", (Ref("a"),))),
        outputs=("b",),
        level="dynamo",
    )
    asked: list[Program] = []

    def survives(programs: Sequence[Program]) -> list[bool]:
        asked.extend(programs)
        return [True] * len(programs)

    assert targets(publish(program, survives)) == ["torch.relu", "torch.nn.functional.gelu"]
    assert len(asked) == 1
    assert publish(program, lambda programs: [False] * len(programs)) == program


def test_operators_of_others_and_branches_are_called_as_a_person_would() -> None:
    nodes = (
        Node("a", "torch.ops.lib.scale.default", (Ref("x"),)),
        Node("b", "torch.ops.lib.scale.Tensor", (Ref("a"),)),
        Node("c", "torch.ops.higher_order.cond", (True, Ref("b"))),
        Node("d", "torch.ops.prims.sin.default", (Ref("c"),)),
        Node("e", "torch._C._nn.pad", (Ref("d"), (1, 1))),
        Node("g", "torch._C._nn.upsample_nearest1d", (Ref("e"), 4)),
    )
    program = replace(PROGRAM, nodes=nodes, outputs=("g",))

    assert targets(publish(program, lambda programs: [True] * len(programs))) == [
        "torch.ops.lib.scale", "torch.ops.lib.scale.Tensor", "torch.cond", "torch.ops.prims.sin.default",
        "torch.nn.functional.pad", "torch._C._nn.upsample_nearest1d",
    ]  # fmt: skip
    assert publish(program, lambda programs: [False] * len(programs)) == program


@pytest.mark.parametrize(
    ("target", "args", "function"),
    [
        ("operator.add", (Ref("x"), 1), "torch.add"),
        ("operator.and_", (Ref("x"), Ref("x")), "torch.bitwise_and"),
        (".argmax", (Ref("x"), 0), "torch.argmax"),
        ("operator.add", (1, Ref("x")), "operator.add"),
        ("operator.getitem", (Ref("x"), 0), "operator.getitem"),
        (".add_", (Ref("x"), 1), ".add_"),
        ("math.sqrt", (Ref("x"),), "math.sqrt"),
    ],
)
def test_one_call_that_is_all_becomes_a_function_of_torch(target: str, args: tuple[Arg, ...], function: str) -> None:
    program = replace(PROGRAM, nodes=(Node("a", target, args),), outputs=("a",))

    def fails(programs: Sequence[Program]) -> list[bool]:
        return [True] * len(programs)

    assert targets(publish(program, fails)) == [function]
    assert publish(program, lambda programs: [False] * len(programs)) == program
    beside = replace(program, nodes=(*program.nodes, Node("b", target, args)))
    assert publish(beside, fails) == beside


STEP = Body("step", ("h", "row"), (Node("next", "torch.mul", (Ref("h"), Ref("row"))),), [Ref("next"), Ref("next")])
SCAN = Program(
    inputs=(Input("x", code="torch.ones(2)"), Input("y", code="torch.ones(3, 2)")),
    nodes=(Node("s", "torch.ops.higher_order.scan", (Code("step"), [Ref("x")], [Ref("y")], [])),),
    outputs=("s",),
    bodies=(STEP,),
)


def test_a_scan_of_one_tensor_is_called_as_people_call_it() -> None:
    (called,) = publish(SCAN, lambda programs: [True] * len(programs)).nodes

    assert (called.target, called.args) == ("torch._higher_order_ops.scan", (Code("step"), Ref("x"), Ref("y")))


def test_a_scan_whose_results_are_nested_under_its_public_name_keeps_the_operator() -> None:
    carrying_two = (Code("step"), [Ref("x"), Ref("x")], [Ref("y")], [])
    further_operand = (Code("step"), [Ref("x")], [Ref("y")], [Ref("x")])
    for args in (carrying_two, further_operand):
        program = replace(SCAN, nodes=(replace(SCAN.nodes[0], args=args),))
        assert publish(program, lambda programs: [True] * len(programs)) == program


def test_a_while_loop_is_called_without_the_operands_that_it_has_not() -> None:
    loop = Node("w", "torch.ops.higher_order.while_loop", (Code("less"), Code("step"), (Ref("x"),), ()))

    (called,) = publish(replace(SCAN, nodes=(loop,)), lambda programs: [True] * len(programs)).nodes

    assert called.target == "torch._higher_order_ops.while_loop"
    assert called.args == (Code("less"), Code("step"), (Ref("x"),))
