"""Scripts of several calls: the text, and what it leaves out."""

from __future__ import annotations

import ast
from dataclasses import replace

import pytest

from minimizer.engine.child.protocol import MadeCall
from minimizer.engine.levels.call_sequence import as_script, compiled_anew
from minimizer.engine.program.arguments import Ref
from minimizer.engine.program.model import Input, Node, Program

UPDATE = Program(
    inputs=(Input("l_x_", golden="l_x_"), Input("l_y_", golden="l_y_")),
    nodes=(Node("double", ".mul_", (Ref("l_x_"), 2)), Node("total", "operator.add", (Ref("l_x_"), Ref("l_y_")))),
    outputs=("total",),
    compile_kwargs=(("dynamic", "True"),),
    grad=True,
)
APART = MadeCall(values={"l_x_": "torch.ones(4)", "l_y_": "torch.zeros(4)"})
OVERLAPPING = MadeCall(statements=["base = torch.ones(6)"], values={"l_x_": "base[0:4]", "l_y_": "base[2:6]"})

SCRIPT = """
def f(x0, x1):
    v0 = x0.mul_(2)
    v1 = x0 + x1
    return v1

compiled = torch.compile(f, dynamic=True)
compiled(torch.ones(4), torch.zeros(4))
def call(f):
    base = torch.ones(6)
    x0 = base[0:4]
    x1 = base[2:6]
    return f(x0, x1), x0, x1
torch.testing.assert_close(call(compiled), call(f))
"""


def test_script_makes_the_calls_and_checks_the_last_one_with_its_inputs() -> None:
    text = as_script(UPDATE, [APART, OVERLAPPING])
    assert text is not None
    assert text.endswith(SCRIPT)


def test_function_that_writes_to_nothing_is_called_in_one_line() -> None:
    pure = replace(UPDATE, nodes=(Node("total", "operator.add", (Ref("l_x_"), Ref("l_y_"))),))
    text = as_script(pure, [OVERLAPPING, APART])
    assert text is not None
    assert text.splitlines()[-1] == (
        "torch.testing.assert_close(compiled(torch.ones(4), torch.zeros(4)), f(torch.ones(4), torch.zeros(4)))"
    )
    assert [line for line in text.splitlines() if line.startswith("import")] == ["import torch"]


def test_inputs_that_are_drawn_are_the_same_for_both() -> None:
    drawn = MadeCall(values={"l_x_": "torch.randn((9,))", "l_y_": "torch.zeros(9)"})
    text = as_script(UPDATE, [APART, drawn])
    assert text is not None and "def call(f):\n    torch.manual_seed(0)\n" in text


def test_earlier_calls_that_share_storages_bind_them_first() -> None:
    text = as_script(UPDATE, [OVERLAPPING, APART])
    assert text is not None and "base = torch.ones(6)\ncompiled(base[0:4], base[2:6])\n" in text


def test_frozen_inputs_are_constants_of_a_module_that_later_calls_write_to() -> None:
    """Where a constant stays as it is, nothing is written."""
    program = replace(
        UPDATE,
        inputs=(Input("l_x_", golden="l_x_"), Input("l_y_", golden="l_y_", frozen=True)),
        nodes=(Node("total", "operator.add", (Ref("l_x_"), Ref("l_y_"))),),
        compile_kwargs=(),
        grad=False,
    )
    changed = MadeCall(values={"l_x_": "torch.ones(4)", "l_y_": "torch.ones(4)"})
    text = as_script(program, [APART, APART, changed])
    assert text is not None
    assert text.endswith(
        """
torch.set_grad_enabled(False)
compiled = torch.compile(lambda x0, x1: f(x0, constants.x1))
constants = torch.nn.Module()
constants.x1 = torch.zeros(4)
compiled(torch.ones(4), constants.x1)
compiled(torch.ones(4), constants.x1)
constants.x1.copy_(torch.ones(4))
torch.testing.assert_close(compiled(torch.ones(4), constants.x1), f(torch.ones(4), constants.x1))
"""
    )


def test_constants_that_are_drawn_or_views_are_written_before_each_call() -> None:
    program = replace(
        UPDATE,
        inputs=(Input("l_x_", golden="l_x_"), Input("l_y_", golden="l_y_", frozen=True)),
        nodes=(Node("total", "operator.add", (Ref("l_x_"), Ref("l_y_"))),),
        grad=False,
    )
    drawn = MadeCall(values={"l_x_": "torch.ones(4)", "l_y_": "torch.randn((4,))"})
    text = as_script(program, [drawn, drawn, OVERLAPPING])
    assert text is not None
    assert text.count("constants.x1.copy_(torch.randn((4,)))") == 1
    assert "base = torch.ones(6)\nconstants.x1.copy_(base[2:6])\ntorch.testing" in text


def test_number_of_the_program_stays_one() -> None:
    """Dynamo lifts a number as a tensor without dimensions."""
    inputs = (*UPDATE.inputs, Input("s", code="0.5"))
    calls = [MadeCall(values={**call.values, "s": "torch.tensor(0.5, dtype=torch.float64)"}) for call in (APART, APART)]
    text = as_script(replace(UPDATE, inputs=inputs), calls)
    assert text is not None and "\n    x2 = 0.5\n" in text and "compiled(torch.ones(4), torch.zeros(4), 0.5)" in text


def test_program_without_gradients_runs_without_them() -> None:
    calls = [MadeCall(values={**APART.values, "l_y_": "torch.zeros(4).requires_grad_()"})] * 2
    with_them, without = as_script(UPDATE, calls), as_script(replace(UPDATE, grad=False), calls)
    assert with_them is not None and "set_grad_enabled" not in with_them
    assert without is not None and "torch.set_grad_enabled(False)\n" in without


@pytest.mark.parametrize(
    "calls",
    [
        [APART],
        [APART, MadeCall(values={"l_x_": "torch.ones(4)"})],
        [APART, MadeCall(values={"l_x_": "torch.ones(", "l_y_": "1"})],
    ],
    ids=["single call", "input that has no text", "no Python"],
)
def test_no_script_without_all_that_it_needs(calls: list[MadeCall]) -> None:
    assert as_script(UPDATE, calls) is None


def test_last_statement_is_compiled_anew() -> None:
    text = as_script(UPDATE, [APART, OVERLAPPING])
    assert text is not None
    anew = compiled_anew(text)
    *_, reset, check = map(ast.unparse, ast.parse(anew).body)
    assert reset == "torch._dynamo.reset()"
    assert check == ast.unparse(ast.parse(text).body[-1])
