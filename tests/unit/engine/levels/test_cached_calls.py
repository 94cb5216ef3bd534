"""Scripts that fail only by what the compiler takes from a cache: their texts, and the part of a graph that they call."""

from __future__ import annotations

import ast

import pytest

from minimizer.engine.child.protocol import MadeCall
from minimizer.engine.levels.cached_calls import as_scripts, without_caches
from minimizer.engine.program.arguments import Ref
from minimizer.engine.program.model import Input, Node, Program, TensorMeta, contiguous

VALUE = TensorMeta((3, 2), "torch.float32", contiguous((3, 2)), requires_grad=True)
GATE = Program(
    inputs=(Input("l_x_", golden="l_x_", meta=VALUE), Input("l_limit_", golden="l_limit_")),
    nodes=(
        Node("scaled", "operator.mul", (Ref("l_x_"), 9), meta=VALUE),
        Node("gated", ".clamp", (Ref("scaled"),), (("max", Ref("l_limit_")),), meta=VALUE, module="gate"),
    ),
    outputs=("gated",),
    compile_kwargs=(("dynamic", "True"),),
    grad=True,
)
CALL = MadeCall(values={"l_x_": "torch.ones(3, 2).requires_grad_()", "l_limit_": "2.5"})


def test_the_operation_that_takes_a_number_is_called_with_other_numbers_before_that_one() -> None:
    text, part = next(as_scripts(GATE, CALL))
    assert [node.name for node in part.nodes] == ["gated"]
    drawn = "torch.randn((3, 2)).requires_grad_()"
    assert text.endswith(
        f"""
def f(x0, x1):
    v0 = x0.clamp(max=x1)
    return v0

compiled = torch.compile(f, dynamic=True)
compiled({drawn}, 6.5).sum().backward()
compiled({drawn}, 4.5).sum().backward()
def call(f):
    torch.manual_seed(0)
    return f({drawn}, 2.5)
torch.testing.assert_close(call(compiled), call(f), rtol=0.01, atol=0.01)
"""
    )


AVERAGE = Program(
    inputs=(Input("mean", golden="mean", meta=VALUE), Input("decay", golden="decay"), Input("value", golden="value", meta=VALUE)),
    nodes=(
        Node("kept", ".mul_", (Ref("mean"), Ref("decay")), meta=VALUE),
        Node("rest", "operator.sub", (1, Ref("decay")), number=0.5),
        Node("moved", ".add_", (Ref("kept"), Ref("value")), (("alpha", Ref("rest")),), meta=VALUE),
        Node("doubled", "operator.mul", (Ref("moved"), 2), meta=VALUE),
    ),
    outputs=("doubled",),
)  # fmt: skip
WEIGHTS = {"mean": "torch.ones(3, 2).requires_grad_()", "decay": "0.5", "value": "torch.zeros(3, 2)"}


def test_a_number_that_is_made_of_another_comes_with_what_makes_it_and_with_what_takes_that_other() -> None:
    texts = dict.fromkeys(
        tuple(node.name for node in part.nodes) for _, part in as_scripts(AVERAGE, MadeCall(values=WEIGHTS))
    )
    assert list(texts) == [("kept",), ("kept", "rest", "moved"), ("kept", "rest", "moved", "doubled")]


def test_a_weight_is_written_to_where_the_script_has_no_gradients() -> None:
    for text, _ in as_scripts(AVERAGE, MadeCall(values=WEIGHTS)):
        assert text.index("torch.set_grad_enabled(False)") < text.index("compiled = ")


def test_nothing_runs_a_backward_of_a_call_that_has_no_gradient() -> None:
    values = {"l_x_": "torch.ones(3, 2)", "l_limit_": "2.5"}
    whole, _ = list(as_scripts(GATE, MadeCall(values=values)))[-1]
    assert "torch.ones(3, 2)" in whole and "backward" not in whole


def test_the_whole_graph_comes_last_and_the_same_call_twice_after_other_numbers() -> None:
    found = list(as_scripts(GATE, CALL))
    assert [len(part.nodes) for _, part in found] == [1, 1, 1, 1, 2, 2]
    resets = ["torch._dynamo.reset()" in text for text, _ in found]
    assert resets == [False, True, False, True, False, True]
    spread = ["torch.linspace(-9, 9, 6).reshape((3, 2))" in text for text, _ in found]
    assert spread == [False, False, True, True, False, False], "few draws reach a number that decides"
    for text, _ in found:
        ast.parse(text)


def test_a_graph_without_numbers_makes_the_same_call_twice() -> None:
    plain = Program(inputs=GATE.inputs[:1], nodes=GATE.nodes[:1], outputs=("scaled",))
    texts = [text for text, _ in as_scripts(plain, CALL)]
    assert texts and all(".reset()" in text and "backward" not in text for text in texts)


@pytest.mark.parametrize("values", [{}, {"l_x_": "torch.ones(3, 2)"}])
def test_no_script_of_a_graph_whose_inputs_have_no_source_text(values: dict[str, str]) -> None:
    assert list(as_scripts(GATE, MadeCall(values=values))) == []


def test_the_caches_are_off_in_the_script_that_must_pass() -> None:
    text, _ = next(as_scripts(GATE, CALL))
    lines = without_caches(text).splitlines()
    assert lines[1:3] == [
        "torch._inductor.config.fx_graph_cache = False",
        "torch._functorch.config.enable_autograd_cache = False",
    ]
