"""Programs that launch Triton kernels of the script's own: what may change of them, and what not while they do."""

from __future__ import annotations

from dataclasses import replace

from fake_check import FakeCheck, Rule, no_literal
from toy_programs import tidy, well_formed

from minimizer.engine.program import render
from minimizer.engine.program.arguments import Code, Ref
from minimizer.engine.program.model import LAUNCH, Input, Node, Program, TensorMeta
from minimizer.engine.reduce.graph import Reduced, reduce
from minimizer.engine.reduce.graph.launches import may_run

MANY = TensorMeta((1000,), "torch.float32", (1,))
WRONG = "torch.log1p"
PROGRAM = Program(
    inputs=(
        Input("x", MANY, golden="x"),
        Input("y", MANY, golden="y"),
        Input("gate", replace(MANY, stride=(2,)), golden="gate"),
    ),
    nodes=(
        Node("sin", "torch.sin", (Ref("x"),), meta=MANY),
        Node("out", "torch.empty_like", (Ref("sin"),), meta=MANY),
        Node(
            "launch",
            LAUNCH,
            (Code("scale_kernel[4, 1]"),),
            (("source", Ref("sin")), ("target", Ref("out")), ("count", 1000)),
        ),
        Node("log", WRONG, (Ref("out"),), meta=MANY),
        Node("mul", "operator.mul", (Ref("log"), Ref("gate")), meta=MANY),
    ),
    outputs=("mul",),
)


def run(rule: Rule) -> Reduced:
    reduced = reduce(PROGRAM, check=FakeCheck(rule), literal=no_literal)
    well_formed(reduced.best)
    tidy(reduced.best)
    return reduced


def shapes(program: Program) -> set[tuple[int, ...]]:
    return {item.meta.shape for item in program.inputs if item.meta}


def test_a_launch_reads_as_a_script_has_it() -> None:
    assert "    launch = scale_kernel[4, 1](source=sin, target=out, count=1000)\n" in render.function(PROGRAM)
    assert PROGRAM.kernels == {"scale_kernel"}


def test_a_launch_at_fault_keeps_the_sizes_that_it_was_told() -> None:
    """A kernel reads and writes behind the end of a tensor that is smaller than it was told."""
    best = run(lambda program: bool(program.kernels)).best
    assert [node.target for node in best.nodes] == [LAUNCH]
    assert dict(best.nodes[0].kwargs)["count"] == 1000
    assert shapes(best) == {(1000,)}
    assert {item.name for item in best.inputs} == {"sin", "out"}


def test_where_the_launch_is_not_needed_it_goes_and_sizes_shrink() -> None:
    best = run(lambda program: any(node.target == WRONG for node in program.nodes)).best
    assert [node.target for node in best.nodes] == [WRONG]
    assert not best.kernels
    assert shapes(best) != {(1000,)}


def test_what_a_kernel_was_told_is_not_changed() -> None:
    launch, log = PROGRAM.nodes[2:4]
    fewer = replace(
        PROGRAM, nodes=(*PROGRAM.nodes[:2], replace(launch, kwargs=(*launch.kwargs[:2], ("count", 10))), log)
    )
    smaller = replace(
        PROGRAM, inputs=tuple(replace(i, meta=TensorMeta((10,), "torch.float32", (1,))) for i in PROGRAM.inputs)
    )
    other = replace(PROGRAM, nodes=(replace(PROGRAM.nodes[0], args=(Ref("gate"),)), *PROGRAM.nodes[1:]))
    assert not may_run(other, PROGRAM), "it lies otherwise in memory"
    assert may_run(replace(PROGRAM, nodes=(replace(PROGRAM.nodes[0], args=(Ref("y"),)), *PROGRAM.nodes[1:])), PROGRAM)
    assert not may_run(fewer, PROGRAM)
    assert not may_run(smaller, PROGRAM)


def test_integers_keep_their_values() -> None:
    """They may be places in another tensor, as those of a table of blocks are."""
    blocks = Input("blocks", TensorMeta((4,), "torch.int64", (1,)), golden="blocks")
    program = replace(PROGRAM, inputs=(*PROGRAM.inputs, blocks))
    simpler = replace(blocks, golden=None, code="torch.full((4,), 1000000)")
    assert may_run(program, program)
    assert not may_run(replace(program, inputs=(*PROGRAM.inputs, simpler)), program)
    floats = replace(PROGRAM.inputs[0], golden=None, code="torch.ones(1000)")
    assert may_run(replace(program, inputs=(floats, *program.inputs[1:])), program)
