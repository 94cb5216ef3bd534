"""Behind a jump a difference counts only where a part of the graph is wrong on eager's own inputs, and every part is asked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, cast

import pytest
from fake_oracle import FakeOracle, Rule, Wary
from sample_graphs import chain, model

from minimizer.engine.child.outcome import Ending, Outcome, Verdict
from minimizer.engine.localize.behind_jumps import Answer, first_wrong, taken_apart
from minimizer.engine.oracle.oracle import Oracle
from minimizer.engine.program.arguments import Ref
from minimizer.engine.program.model import Input, Node, Program, TensorMeta
from minimizer.engine.program.regions import Region, split
from minimizer.vocabulary import Kind

FLOAT, INTEGER = TensorMeta((4,), "torch.float32"), TensorMeta((4,), "torch.int64")


def has(target: str) -> Rule:
    return lambda program: any(node.target == target for node in program.nodes)


def asked(program: Program, oracle: FakeOracle, **options: Any) -> Answer:
    return first_wrong(program, split(program.nodes, 0, len(program.nodes)), cast(Oracle, oracle), **options)


def targets(program: Program, region: Region) -> list[str]:
    return [node.target for node in program.nodes[region.start : region.stop]]


@pytest.mark.parametrize("before", [0, 1, 30])
@pytest.mark.parametrize("after", [0, 1, 30])
def test_what_is_wrong_behind_a_jump_is_found_on_eager_inputs(before: int, after: int) -> None:
    """The jump is right, so it is not the one that is found."""
    sines, cosines = [("torch.sin", "")] * before, [("torch.cos", "")] * after
    program = chain([*sines, ("torch.floor", ""), *sines, ("torch.bad", ""), *cosines])
    answer = asked(program, Wary(has("torch.bad"), "torch.floor"))
    assert answer.wrong is not None
    found = targets(program, answer.wrong.region)
    assert "torch.bad" in found and "torch.floor" not in found


def test_a_jump_that_is_wrong_is_found_by_itself() -> None:
    program = chain([*[("torch.sin", "")] * 20, ("torch.floor", ""), ("torch.cos", "")])
    answer = asked(program, Wary(has("torch.floor"), "torch.floor"))
    assert answer.wrong is not None and targets(program, answer.wrong.region) == ["torch.floor"]


def test_what_two_operations_do_together_between_jumps_is_found() -> None:
    def together(program: Program) -> bool:
        return {"torch.one", "torch.other"} <= {node.target for node in program.nodes}

    program = chain([("torch.round", ""), ("torch.one", ""), ("torch.other", ""), ("torch.round", "")])
    answer = asked(program, Wary(together, "torch.round"))
    assert answer.wrong is not None and targets(program, answer.wrong.region) == ["torch.one", "torch.other"]


def test_where_every_part_is_right_the_difference_is_amplified_rounding() -> None:
    class Amplifying(FakeOracle):
        def _outcome(self, program: Program) -> Outcome:
            return Outcome(
                ending=Ending.SAME, verdict=Verdict(discrete=has("torch.floor")(program) and program.size > 1)
            )

    assert asked(chain([("torch.sin", ""), ("torch.floor", "")]), Amplifying(has(""))) == Answer()


class Signed(FakeOracle):
    """Answers that values behind ``torch.ceil`` may differ in a graph, and that ``torch.unsign`` leaves zeros of another sign."""

    def _outcome(self, program: Program) -> Outcome:
        outcome = super()._outcome(program)
        is_behind = any(node.target == "torch.ceil" for node in program.nodes[1:])
        if is_behind or outcome.verdict is None or outcome.ending != "same":
            return Outcome(ending=Ending.SAME, verdict=Verdict(discrete=True)) if is_behind else outcome
        zeros = [node.target for node in program.nodes if node.target != "torch.view"][-1:] == ["torch.unsign"]
        return outcome.model_copy(update={"verdict": Verdict(other_zeros=zeros)})


def _turned(program: Program) -> bool:
    return {"torch.unsign", "torch.atan2"} <= {node.target for node in program.nodes}


@pytest.mark.parametrize("between", [0, 1, 10])
@pytest.mark.parametrize("modules", [("", ""), ("grid", "angle")])
def test_the_sign_of_a_zero_is_followed_to_where_it_counts(between: int, modules: tuple[str, str]) -> None:
    """The boundary of a module, or of a chunk of nodes, hides it from either side: equal there, and read behind it."""
    grid, angle = modules
    before = [("torch.div", grid), ("torch.ceil", grid), ("torch.unsign", grid)]
    program = chain([*before, *[("torch.view", angle)] * between, ("torch.atan2", angle)])
    answer = asked(program, Signed(_turned, Kind.WRONG_OUTPUT))
    assert answer.wrong is not None
    found = targets(program, answer.wrong.region)
    assert {"torch.unsign", "torch.atan2"} <= set(found) and "torch.ceil" not in found[1:]


@pytest.mark.parametrize("last", ["torch.cos", "torch.ceil"])
def test_a_zero_of_another_sign_that_nothing_reads_is_no_fault(last: str) -> None:
    program = chain(
        [("torch.div", "a"), ("torch.ceil", "a"), ("torch.unsign", "a"), (last, "b"), ("torch.unsign", "b")]
    )
    assert asked(program, Signed(_turned, Kind.WRONG_OUTPUT)) == Answer()


def test_a_part_that_cannot_be_asked_is_told() -> None:
    class Mute(FakeOracle):
        def _outcome(self, program: Program) -> Outcome:
            return Outcome(ending=Ending.SETUP_ERROR if has("torch.odd")(program) else "same", verdict=Verdict())

    program = chain([("torch.sin", ""), ("torch.odd", ""), ("torch.cos", "")])
    assert asked(program, Mute(has(""))) == Answer(unasked=(Region(1, 2),))


@pytest.mark.parametrize(
    ("kind", "counts"), [("wrong_output", True), ("wrong_gradient", True), ("wrong_metadata", False)]
)
def test_a_region_that_is_wrong_in_another_way_than_the_script_is_not_right(kind: Any, counts: bool) -> None:
    class Other(FakeOracle):
        def _outcome(self, program: Program) -> Outcome:
            outcome = super()._outcome(program)
            verdict = Verdict(fault=True, kind=kind, differences=outcome.verdict.differences if outcome.verdict else [])
            return outcome if outcome.ending == "same" else replace_verdict(outcome, verdict)

    answer = asked(chain([("torch.bad", "")]), Other(has("torch.bad"), Kind.WRONG_OUTPUT))
    assert (answer.wrong is not None) is counts
    assert not answer.unasked


def replace_verdict(outcome: Outcome, verdict: Verdict) -> Outcome:
    differences = [difference.model_copy(update={"kind": verdict.kind}) for difference in verdict.differences]
    return outcome.model_copy(update={"verdict": verdict.model_copy(update={"differences": differences})})


@pytest.mark.parametrize("backward", [True, False])
def test_gradients_are_asked_for_where_the_script_has_some(backward: bool) -> None:
    oracle = FakeOracle(has(""))
    asked(chain([("torch.sin", "")]), oracle, backward=backward)
    assert oracle.changes[0] == {"backward": backward}


def test_equal_blocks_are_asked_once_where_one_is_wrong() -> None:
    program = model(6, {3: "torch.bad"})
    oracle = FakeOracle(has("torch.bad"), Kind.WRONG_OUTPUT)
    answer = asked(program, oracle)
    assert answer.wrong is not None and answer.wrong.region.path == "blocks.3"
    assert len(oracle.judged) < 6


def graph(x: TensorMeta, *nodes: tuple[str, Sequence[str], TensorMeta | None]) -> Program:
    made = tuple(
        Node(f"v{i}", target, tuple(map(Ref, refs)), meta=meta) for i, (target, refs, meta) in enumerate(nodes)
    )
    return Program((Input("x", x, golden="x"),), made, (made[-1].name,))


@pytest.mark.parametrize(
    ("target", "operand", "result", "is_jump"),
    [
        ("torch.round", FLOAT, FLOAT, True),
        (".floor_", FLOAT, FLOAT, True),
        ("operator.floordiv", FLOAT, FLOAT, True),
        ("torch.ops.aten.fmod.Tensor", FLOAT, FLOAT, True),
        ("operator.gt", FLOAT, replace(FLOAT, dtype="torch.bool"), True),
        (".argmax", FLOAT, INTEGER, True),
        (".to", FLOAT, INTEGER, True),
        (".type_as", replace(FLOAT, dtype="torch.bfloat16"), INTEGER, True),
        ("torch.topk", FLOAT, None, True),
        (".to", FLOAT, replace(FLOAT, dtype="torch.bfloat16"), False),
        ("torch.max", FLOAT, FLOAT, False),
        ("torch.where", FLOAT, FLOAT, False),
        ("torch.chunk", FLOAT, None, False),
        ("operator.gt", INTEGER, replace(FLOAT, dtype="torch.bool"), False),
        ("torch.background", FLOAT, FLOAT, False),
        ("torch.nn.functional.gelu", FLOAT, FLOAT, False),
    ],
)
def test_a_region_is_taken_apart_at_what_makes_steps_of_roundings(
    target: str, operand: TensorMeta, result: TensorMeta | None, is_jump: bool
) -> None:
    program = graph(
        operand, ("torch.a", ["x"], operand), ("torch.b", ["v0"], operand), (target, ["v1"], result), ("torch.d", ["v1"], FLOAT),
        ("torch.e", ["v3"], FLOAT),
    )  # fmt: skip
    parts = [(part.start, part.stop) for part in taken_apart(program, Region(0, 5))]
    assert parts == ([(0, 2), (2, 3), (3, 5)] if is_jump else [(n, n + 1) for n in range(5)])


def test_a_single_operation_cannot_be_taken_apart() -> None:
    assert taken_apart(chain([("torch.round", "")]), Region(0, 1)) == []
