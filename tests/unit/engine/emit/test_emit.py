"""What every emitted repro must look like, whatever the program; `tests/inside/test_repro_idioms.py` runs them."""

from __future__ import annotations

import ast
import builtins
import io
import keyword
import math
import re
import subprocess
import zipfile
from dataclasses import replace
from textwrap import dedent
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from ruff import find_ruff_bin

from minimizer.engine.emit import Details, Repro, bundle, emit, prose
from minimizer.engine.emit.header import comment, plain, telltale
from minimizer.engine.emit.idioms import attempts_for
from minimizer.engine.emit.layout import INDENT, LINE, assemble, code_lines
from minimizer.engine.program import render
from minimizer.engine.program.arguments import Code, Ref
from minimizer.engine.program.model import Body, Input, Node, Program, TensorMeta, View
from minimizer.report.culprit import Culprit
from minimizer.report.model import Failure, Reproducibility
from minimizer.vocabulary import Kind, Stage

INJECT = 'torch._inductor.config.cpp.inject_relu_bug_TESTING_ONLY = "accuracy"'
EVERY_TIME = Reproducibility(failed=3, runs=3)
CULPRITS = [Culprit(ops=["aten.relu"])]
ENVIRONMENT = {"torch": "2.13.0", "device": "cpu"}


def tensor(
    *shape: int, dtype: str = "torch.float32", grad: bool = False, stride: tuple[int, ...] | None = None
) -> TensorMeta:
    return TensorMeta(shape, dtype, stride=stride, requires_grad=grad)


def one_op(target: str = "torch.relu", *, code: str = "torch.tensor([-1.0, 1.0])", **changes: Any) -> Program:
    grad = changes.get("grad", False)
    return Program(
        inputs=(Input("L_x_", tensor(2, grad=grad), code=code),),
        nodes=(Node("out", target, (Ref("L_x_"),), meta=tensor(2, grad=grad)),),
        outputs=("out",),
        **changes,
    )


def written(
    program: Program,
    kind: Kind = Kind.WRONG_OUTPUT,
    details: Details | None = None,
    rate: Reproducibility = EVERY_TIME,
    **failure: Any,
) -> Repro:
    return emit(
        program,
        Failure(kind=kind, stage=Stage.INDUCTOR, **failure),
        CULPRITS,
        environment=ENVIRONMENT,
        rate=rate,
        details=details,
    )


def body_of(repro: Repro) -> str:
    """The function, without what is around it."""
    match = re.search(r"^def f\(.*?(?=^\S)", repro.source, re.M | re.S)
    assert match
    return match[0].rstrip()


def test_a_wrong_value_reads_like_a_hand_written_script() -> None:
    repro = written(one_op(setup=(INJECT,)), details={"comparable": "tensor", "rtol": 0.0, "atol": 0.0})
    assert (
        repro.source
        == """\
# torch.compile computes wrong values for aten.relu (first seen in Inductor).
# torch 2.13.0, cpu; the script failed in 3 of 3 runs.
# Run `python repro.py`: exit status 1 while the bug is there, 0 once it is gone, 125 if
# it cannot run here.

import torch

try:
    torch._inductor.config.cpp.inject_relu_bug_TESTING_ONLY = "accuracy"
    x = torch.tensor([-1.0, 1.0])
    expected, actual = torch.relu(x), torch.compile(torch.relu)(x)
except Exception as error:
    print(f"cannot run here: {error}")
    raise SystemExit(125)

assert torch.equal(actual, expected), f"{expected=}, {actual=}"
"""
    )
    assert repro.lines == 9
    assert not repro.data_keys


ASSERT_EQUAL = 'assert torch.equal(actual, expected), f"{expected=}, {actual=}"\n'
ASSERT_CLOSE = 'torch.testing.assert_close(actual, expected, msg=f"{expected=}, {actual=}")\n'
IN_TWO_LINES = """\
print(f"expected {{expected}}\\nactual   {{actual}}")
torch.testing.assert_close(actual, expected{}, equal_nan=True)
"""


@pytest.mark.parametrize(
    ("details", "check", "evidence"),
    [
        ({"comparable": "tensor", "rtol": 0.0, "atol": 0.0}, ASSERT_EQUAL, "AssertionError: expected="),
        ({"comparable": "tensor"}, ASSERT_CLOSE, "AssertionError: expected="),
        ({"comparable": "values"}, ASSERT_CLOSE, "AssertionError: expected="),
        ({"comparable": "values", "rtol": 0.0, "atol": 0.0}, IN_TWO_LINES.format(", rtol=0, atol=0"), "AssertionError: "),
        ({"comparable": "tensor", "rtol": 0.0, "atol": 1e-6}, IN_TWO_LINES.format(", rtol=0, atol=1e-06"), "AssertionError: "),
        ({"rtol": 0.0, "atol": 0.0}, IN_TWO_LINES.format(", rtol=0, atol=0"), "AssertionError: "),
        ({}, IN_TWO_LINES.format(""), "AssertionError: "),
    ],
)  # fmt: skip
def test_one_statement_checks_values_among_which_is_no_nan(details: Details, check: str, evidence: str) -> None:
    repro = written(one_op(".relu"), details=details)
    assert repro.source.endswith(f"125)\n\n{check}")
    assert repro.evidence == evidence
    looped = written(one_op(".relu"), details=details, rate=Reproducibility(failed=1, runs=2)).source
    assert looped.endswith("".join(f"    {line}\n" for line in check.splitlines()))


@pytest.mark.parametrize(
    ("details", "said"),
    [
        ({"aspect": "dtype", "output": ""}, "expected="),
        ({"aspect": "aliasing", "output": "", "alias_of": "L_x_"}, "shared memory: expected="),
    ],
)
def test_wrong_metadata_is_asserted(details: Details, said: str) -> None:
    repro = written(one_op(".relu"), Kind.WRONG_METADATA, details)
    message = said.replace("expected=", "{expected=}, {actual=}")
    assert repro.source.endswith(f'\nassert actual == expected, f"{message}"\n')
    assert repro.evidence == f"AssertionError: {said}"


@pytest.mark.parametrize(("target", "compiled"), [("torch.relu", "torch.relu"), (".relu", "f")])
@pytest.mark.parametrize("kind", [kind for kind in Kind if not kind.is_finding])
def test_every_kind_is_formatted_clean_and_free_of_paths(kind: Kind, target: str, compiled: str) -> None:
    grad = kind is Kind.WRONG_GRADIENT
    message = "/home/user/secret/model.py: boom" if kind in (Kind.COMPILE_ERROR, Kind.RUNTIME_ERROR) else ""
    repro = written(one_op(target, grad=grad, setup=(INJECT,)), kind, message=message, exception_type="torch.Boom")
    compile(repro.source, "repro.py", "exec")
    assert f"torch.compile({compiled})" in repro.source
    assert ("def f" in repro.source) is (compiled == "f")
    assert "/home" not in repro.source
    for command in (["check", "--select", "E,F,W,I"], ["format", "--check"]):
        argv = [find_ruff_bin(), *command, "--isolated", "--no-cache", "--stdin-filename", "repro.py", "-"]
        done = subprocess.run(argv, input=repro.source, text=True, capture_output=True, timeout=60)
        assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("kind", [Kind.WRONG_OUTPUT, Kind.COMPILE_ERROR, Kind.WRONG_METADATA, Kind.WRONG_GRADIENT])
def test_one_operator_takes_at_most_12_lines(kind: Kind) -> None:
    grad = kind is Kind.WRONG_GRADIENT
    repro = written(one_op(grad=grad, setup=(INJECT,)), kind, {"aspect": "dtype"})
    assert repro.lines <= 12 + grad


A, B = Ref("a"), Ref("b")


def calling(target: str, *args: Any, kwargs: dict[str, Any] | None = None, output: str = "out") -> Program:
    inputs = tuple(Input(name, tensor(2), code="torch.ones(2)") for name in "ab")
    return Program(inputs, (Node("out", target, args, tuple((kwargs or {}).items())),), (output,))


NAN = Code('float("nan")')


@pytest.mark.parametrize(
    ("program", "function", "given", "is_short"),
    [
        (calling("torch.maximum", A, B), "torch.maximum", "a, b", True),
        (calling("torch.sub", B, A), "torch.sub", "b, a", True),
        (calling("torch.lerp", A, B, 0.5), "torch.lerp", "a, b, 0.5", True),
        (calling("torch.clamp", A, B, kwargs={"max": NAN}), "torch.clamp", 'a, b, max=float("nan")', False),
        (calling("torch.cat", [A, B], kwargs={"dim": -1}), "torch.cat", "[a, b], dim=-1", False),
        (calling("torch.add", A, kwargs={"other": B}), "torch.add", "a, other=b", True),
        (calling("torch.ops.aten.maximum.default", A, B), "torch.ops.aten.maximum.default", "a, b", False),
        (calling("torch.special.zeta", A, B), "torch.special.zeta", "a, b", True),
        (calling("torch.nn.functional.prelu", A, B), "F.prelu", "a, b", True),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_one_call_of_a_built_in_function_is_compiled_as_it_is(
    program: Program, function: str, given: str, is_short: bool
) -> None:
    source = written(program).source
    eager, compiled = f"{function}({given})", f"torch.compile({function})({given})"
    lines = [line.strip() for line in source.splitlines()]
    together, apart = f"expected, actual = {eager}, {compiled}", [f"expected = {eager}", f"actual = {compiled}"]
    assert [line for line in lines if line in (together, *apart)] == ([together] if is_short else apart)
    assert "def " not in source


@pytest.mark.parametrize(
    "changes",
    [{"compile_kwargs": (("dynamic", "True"),)}, {"marked": True}, {"setup": ("torch._dynamo.config.a = False",)}],
)
def test_a_constant_stays_inside_where_the_compiler_could_take_it_for_a_symbol(changes: dict[str, Any]) -> None:
    assert "return torch.lerp(a, b, 0.5)" in written(replace(calling("torch.lerp", A, B, 0.5), **changes)).source
    assert "def f" not in written(replace(calling("torch.maximum", A, B), **changes)).source


def test_inputs_come_in_the_order_of_their_use_unless_that_would_draw_other_numbers() -> None:
    program = calling("torch.nn.functional.mse_loss", B, A)
    assert "def f(b, a):\n" in written(program).source
    drawn = tuple(replace(item, code="torch.rand(2)") for item in program.inputs)
    assert "def f(b, a):\n" in written(replace(program, inputs=(program.inputs[0], drawn[1]))).source
    assert "def f(a, b):\n" in written(replace(program, inputs=drawn)).source


@pytest.mark.parametrize(
    "program",
    [
        calling("torch.add", A, 1),
        calling("torch.addcmul", A, B, B),
        calling("torch.add", A, A),
        calling("torch.relu", A),
        calling("torch.where", A, B, Code("LIMIT")),
        calling("torch.add", A, B, kwargs={"alpha": Code("SCALE")}),
        calling("torch.maximum", A, B, output="a"),
        replace(calling("torch.maximum", A, B), outputs=("out", "out")),
        replace(calling("torch.maximum", A, B), outputs=("out", "a")),
        calling(".add", A, B),
        calling("operator.add", A, B),
        calling("torch.ops.higher_order.wrap", A, B),
        calling("torch._weight_norm", A, B),
        calling("torch.cdist", A, B),
        calling("torch.nn.functional.mse_loss", A, B),
        Program((), (Node("out", "torch.seed", ()),), ("out",)),
    ],
    ids=render.function,
)
def test_any_other_program_is_a_function_of_its_own(program: Program) -> None:
    source = written(program).source
    assert "\ndef f(" in source and re.search(r"torch\.compile\(f\)", source)


def test_gradients_are_off_where_a_body_changes_what_it_is_handed() -> None:
    """Dynamo takes no such body while they are on."""
    counted = Body("inner", ("h",), (Node("more", ".add_", (Ref("h"), 1)),), Ref("more"))
    calls = replace(calling("torch.ops.higher_order.cond", A, Code("inner"), Code("inner"), (B,)), bodies=(counted,))
    assert "try:\n    torch.set_grad_enabled(False)\n" in written(calls).source
    pure = replace(counted, nodes=(Node("more", ".add", (Ref("h"), 1)),))
    assert "set_grad_enabled" not in written(replace(calls, bodies=(pure,))).source


def test_functional_calls_use_f_where_it_is_worth_its_import() -> None:
    once = written(one_op("torch.nn.functional.relu")).source
    assert "return torch.nn.functional.relu(x)" in once and "import torch.nn.functional" not in once
    twice = chained(*["torch.nn.functional.relu"] * 2)
    assert "return F.relu(F.relu(x))" in twice and "import torch.nn.functional as F" in twice
    alone = written(one_op("torch.nn.functional.gelu")).source
    assert "expected, actual = F.gelu(x), torch.compile(F.gelu)(x)" in alone and "nn.functional as F" in alone
    assert "import torch.nn.functional" not in written(one_op()).source


def chained(*targets: str) -> str:
    """The repro of calls each of which takes what the one before it gives."""
    nodes = tuple(
        Node(f"h{i}", target, (Ref(f"h{i - 1}" if i else "L_x_"),), meta=tensor(2)) for i, target in enumerate(targets)
    )
    return written(replace(one_op(), nodes=nodes, outputs=(nodes[-1].name,))).source


def test_imports_are_those_that_are_used() -> None:
    program = Program(
        inputs=(Input("x", tensor(2), code="torch.ones(2)"),),
        nodes=(Node("m", "torch.mul", (Ref("x"), Code("math.pi"))),),
        outputs=("m",),
        setup=("import os", "import collections", "SIZE = collections.Counter()"),
    )
    imported = {line for line in written(program).source.splitlines() if line.startswith(("import", "from"))}
    assert imported == {"import collections", "import math", "import torch"}


def test_short_values_are_nested_and_the_others_named_after_their_operator() -> None:
    program = Program(
        inputs=(Input("L_x_", tensor(2), code="torch.ones(2)"), Input("p_weight", tensor(2), code="torch.ones(2)")),
        nodes=(
            Node("mul_7", "operator.mul", (Ref("L_x_"), Ref("p_weight"))),
            Node("relu_3", "torch.relu", (Ref("mul_7"),)),
            Node("sum_1", ".sum", (Ref("relu_3"),)),
            Node("add_1", "operator.add", (Ref("sum_1"), Ref("sum_1"))),
        ),
        outputs=("add_1",),
    )
    assert body_of(written(program)) == (
        "def f(x, weight):\n    total = torch.relu(x * weight).sum()\n    return total + total"
    )


def test_a_call_as_long_as_a_line_is_returned_without_a_name() -> None:
    resized = Node(
        "interpolate", "torch.nn.functional.interpolate", (Ref("labels"),), (("size", (1, 1)), ("mode", "bilinear"))
    )
    program = Program(
        (Input("labels", tensor(1, 1, 1, 1), code="torch.ones(1, 1, 1, 1)"),), (resized,), ("interpolate",)
    )
    returned = 'return torch.nn.functional.interpolate(labels, size=(1, 1), mode="bilinear")'
    assert body_of(written(program)) == f"def f(labels):\n    {returned}"


class Recorder:
    """Stands in for torch: a call returns a value that says how it was made, and is written down."""

    def __init__(self) -> None:
        self.calls: list[str] = []

    def __getattr__(self, name: str) -> Any:
        def call(*args: Any) -> str:
            self.calls.append(f"{name}{args}")
            return self.calls[-1]

        return call


@given(st.data())
def test_writing_keeps_every_call_and_its_order(data: st.DataObject) -> None:
    values, nodes = ["x", "y"], []
    for index in range(data.draw(st.integers(1, 8))):
        args = data.draw(st.lists(st.sampled_from(values), min_size=1, max_size=3))
        nodes.append(Node(f"v_{index}", f"torch.op{data.draw(st.integers(0, 2))}", tuple(map(Ref, args))))
        values.append(f"v_{index}")
    program = Program(
        inputs=tuple(Input(name, tensor(2), code="torch.ones(2)") for name in "xy"),
        nodes=tuple(nodes),
        outputs=tuple(data.draw(st.lists(st.sampled_from(values), min_size=1, max_size=2))),
    )
    outcomes = []
    for text in (render.function(program), prose.function(prose.named(program, ()), "f")):
        recorder = Recorder()
        namespace: dict[str, Any] = {"torch": recorder}
        exec(text, namespace)
        outcomes.append((namespace["f"]("x", "y"), recorder.calls))
    assert outcomes[0] == outcomes[1]


def test_a_result_that_nobody_reads_is_not_bound() -> None:
    program = Program(
        inputs=(Input("x", tensor(2), code="torch.ones(2)"),),
        nodes=(Node("c", ".add_", (Ref("x"), 1)), Node("d", "operator.imul", (Ref("x"), 2))),
        outputs=("x",),
    )
    assert body_of(written(program)) == "def f(x):\n    x.add_(1)\n    x *= 2\n    return x"


def test_both_sides_get_inputs_of_their_own_where_the_function_changes_them() -> None:
    source = written(one_op(".add_"), details={"mutated": ["L_x_"]}).source
    assert "expected, actual = run(f), run(torch.compile(f))" in source
    assert "    fn(x)\n    return x\n" in source


def test_inputs_that_may_share_memory_are_read_again_and_not_copied_one_by_one() -> None:
    """A copy of a window is no window of the copy."""
    program = Program(
        inputs=(Input("x", tensor(8), golden="x"), Input("y", tensor(4), golden="y")),
        nodes=(Node("c", ".mul_", (Ref("x"), 2)), Node("d", "operator.getitem", (Ref("y"), slice(3)))),
        outputs=("d",),
    )
    source = written(program, details={"writes": ["x", "y"]}).source
    assert ".clone()" not in source and "expected, actual = run(f), run(torch.compile(f))" in source
    assert "def run(fn):\n    data = torch.load(" in source


def test_a_view_is_made_of_its_base() -> None:
    program = Program(
        inputs=(
            Input(
                "y",
                tensor(4),
                golden="y",
                view=View("x", (Node("", "operator.getitem", (slice(1, None),)),)),
            ),
            Input("x", tensor(5), code="torch.arange(5.0)"),
        ),
        nodes=(Node("c", ".mul_", (Ref("x"), 2)), Node("d", "operator.getitem", (Ref("y"), slice(3)))),
        outputs=("d",),
    )
    repro = written(program, details={"writes": ["x", "y"]})
    assert "    x = torch.arange(5.0)\n    y = x[1:]\n    return fn(x, y)\n" in repro.source
    assert ".clone()" not in repro.source and not repro.data_keys


def test_what_was_seen_to_write_needs_no_telling_name() -> None:
    source = written(one_op(".scale"), details={"writes": ["L_x_"]}).source
    assert "expected, actual = f(x.clone()), torch.compile(f)(x)" in source
    alone = written(one_op("torch.ops.lib.scale"), details={"writes": ["L_x_"]}).source
    assert "expected = torch.ops.lib.scale(x.clone())\n    actual = torch.compile(torch.ops.lib.scale)(x)\n" in alone


@pytest.mark.parametrize(
    ("item", "grad"),
    [
        (Input("x", replace(tensor(2, 2), stride=(1, 2)), code="torch.ones(2, 2).t()"), False),
        (Input("x", replace(tensor(2), requires_grad=True), code="torch.ones(2, requires_grad=True)"), True),
    ],
    ids=["other strides", "no leaf"],
)
def test_inputs_are_made_anew_where_a_clone_would_be_another(item: Input, grad: bool) -> None:
    program = Program(inputs=(item,), nodes=(Node("a", ".cos_", (Ref("x"),)),), outputs=("a",), grad=grad)
    assert "run(f), run(torch.compile(f))" in written(program, details={"writes": ["x"]}).source


def test_inputs_that_are_used_once_stand_in_the_only_call() -> None:
    inputs = (Input("x", tensor(2), code="torch.ones(2)"), Input("y", tensor(2), code="torch.full((2,), -2.0)"))
    node = Node("a", "torch.nn.functional.binary_cross_entropy", (Ref("x"), Ref("y")))
    program = Program(inputs, (node,), ("a",))
    details: Details = {"eager_error": "RuntimeError"}
    assert "        fn(torch.ones(2), torch.full((2,), -2.0))\n" in written(program, Kind.MISSING_ERROR, details).source
    long = replace(program, inputs=tuple(replace(i, code=f"torch.tensor({[1.5] * 9})") for i in inputs))
    assert "        fn(x, y)\n" in written(long, Kind.MISSING_ERROR, details).source
    drawn = replace(program, inputs=(inputs[0], replace(inputs[1], code="torch.rand(2)")))
    assert "        fn(x, y)\n" in written(drawn, Kind.MISSING_ERROR, details).source
    drawing = Program((), (Node("a", "torch.rand", (2,)),), ("a",))
    seeded = "        torch.manual_seed(0)\n        fn()\n"
    assert seeded in written(drawing, Kind.MISSING_ERROR, details).source
    changing = replace(one_op(".add_"), inputs=(Input("L_x_", tensor(2, stride=(2,)), code="torch.ones(4)[::2]"),))
    assert "    return fn(torch.ones(4)[::2])\n" in written(changing, details={"writes": ["L_x_"], "output": ""}).source
    assert "    fn(x)\n    return x\n" in written(changing, details={"mutated": ["L_x_"]}).source


def test_sides_and_inputs_share_a_line_where_they_fit() -> None:
    inputs = [("L_x_", "torch.ones(2)"), ("L_y_", "torch.zeros(2)"), ("L_z_", f"torch.tensor({[0.125] * 8})")]
    program = Program(
        inputs=tuple(Input(name, tensor(2), code=code) for name, code in inputs),
        nodes=(Node("a", ".addcmul", tuple(Ref(name) for name, _ in inputs)),),
        outputs=("a",),
        compile_kwargs=(("options", "{'epilogue_fusion': False, 'max_fusion_size': 1}"),),
    )
    source = written(program).source
    assert "\n    x, y = torch.ones(2), torch.zeros(2)\n" in source
    assert "\n    z = torch.tensor(" in source
    assert "\n    expected = f(" in source and "\n    actual = torch.compile(f, options=" in source


def test_aliases_of_torch_are_written_out_and_their_lines_go() -> None:
    setup = (
        "import torch._inductor.config as cfg",
        "from torch._dynamo import config as dynamo",
        "aten = torch.ops.aten",
        "ops = torch.ops.aten",
        "def drop(graph, aten_=None):\n    ops.add, ops.sub, ops.mul, ops.div\n    return aten.add  # aten stays here",
        "cfg.joint_custom_post_pass = drop",
        "dynamo.cache_size_limit = 2",
    )
    source = written(one_op(setup=setup)).source
    assert "torch._inductor.config.joint_custom_post_pass = drop" in source
    assert "torch._dynamo.config.cache_size_limit = 2" in source
    assert "return torch.ops.aten.add  # aten stays here" in source
    assert "cfg" not in source and "import config" not in source and "aten = torch" not in source.replace("ops = ", "")
    assert "ops = torch.ops.aten" in source and "ops.add, ops.sub, ops.mul, ops.div" in source  # used too often


def test_an_alias_stays_where_lines_would_become_too_long() -> None:
    long = "def drop(graph):\n    return graph.find_nodes(op='call_function', target=aten.a_rather_long_name.default)"
    source = written(one_op(setup=("aten = torch.ops.aten", long, "torch._inductor.config.a = drop"))).source
    assert "aten = torch.ops.aten\n" in source and "target=aten.a_rather" in source


def test_a_line_of_a_definition_may_be_as_long_as_any() -> None:
    loop = "    for node in graph.find_nodes(op='call_function', target={}.div.Tensor):"
    drop = f"def drop(graph):\n{loop.format('aten')}\n        node.args = ()"
    source = written(one_op(setup=("aten = torch.ops.aten", drop, "torch._inductor.config.a = drop"))).source
    assert loop.format("torch.ops.aten").replace("'", '"') in source and "aten = " not in source
    assert LINE - INDENT < max(map(len, source.splitlines())) <= LINE


def test_an_alias_stays_where_it_keeps_a_line_inside_try_whole() -> None:
    line = "lowerings[aten.bitwise_xor.Tensor] = lowerings[aten.bitwise_or.Tensor]"
    source = written(
        one_op(setup=("from torch._inductor.lowering import lowerings", "aten = torch.ops.aten", line))
    ).source
    assert f"    aten = torch.ops.aten\n    {line}\n" in source


def test_an_alias_that_is_bound_again_stays() -> None:
    setup = ("aten = torch.ops.aten", "def use(aten):\n    return aten", "SUM = aten.sum")
    assert "aten = torch.ops.aten" in written(one_op(setup=setup)).source


def test_a_seed_is_set_only_where_something_is_drawn() -> None:
    assert "torch.manual_seed(0)" in written(one_op(code="torch.randn(2)")).source
    assert "manual_seed" not in written(one_op()).source


@pytest.mark.parametrize(("symbolic", "dims"), [((0,), "0"), ((0, 2), "(0, 2)")])
def test_dimensions_are_marked_only_where_that_is_what_makes_it_fail(symbolic: tuple[int, ...], dims: str) -> None:
    meta = TensorMeta((4, 5, 6), "torch.float32", symbolic=symbolic)
    program = replace(one_op(code="torch.ones(4, 5, 6)"), inputs=(Input("x", meta, code="torch.ones(4, 5, 6)"),))
    program = replace(program, nodes=(replace(program.nodes[0], args=(Ref("x"),)),))
    assert "mark_dynamic" not in written(program).source
    assert f"    torch._dynamo.mark_dynamic(x, {dims})\n" in written(replace(program, marked=True)).source


def test_a_flaky_failure_is_compiled_anew_until_it_shows() -> None:
    source = written(one_op(), rate=Reproducibility(failed=4, runs=6)).source
    assert "for _ in range(9):" in source and "torch._dynamo.reset()" in source
    assert "force_disable_caches = True" in source
    assert "failed in 4 of 6 compilations, so up to 9 are made here" in source


@given(st.integers(1, 40).flatmap(lambda runs: st.tuples(st.integers(0, runs), st.just(runs))))
def test_attempts_are_few_and_enough(counts: tuple[int, int]) -> None:
    failed, runs = counts
    attempts = attempts_for(Reproducibility(failed=failed, runs=runs))
    assert 1 <= attempts <= 50
    assert (attempts == 1) == (failed == runs)
    if 1 < attempts < 50:
        assert (1 - (failed + 0.5) / (runs + 1)) ** attempts <= 1e-4


def test_large_inputs_come_from_a_file_with_their_strides() -> None:
    program = Program(
        inputs=(
            Input("L_x_", tensor(2, 3, stride=(1, 2)), golden="mul_3"),
            Input("L_y_", tensor(2, 3, stride=(3, 1)), golden="y@add"),
        ),
        nodes=(Node("a", "torch.add", (Ref("L_x_"), Ref("L_y_"))),),
        outputs=("a",),
    )
    repro = written(program)
    assert 'data = torch.load(Path(__file__).with_name("data.pt"), weights_only=True)' in repro.source
    assert 'x, y = data["x"].as_strided((2, 3), (1, 2)), data["y"]\n' in repro.source
    assert [(key.key, key.golden, key.stride) for key in repro.data_keys] == [
        ("x", "mul_3", (1, 2)),
        ("y", "y@add", (3, 1)),
    ]


def test_a_bundle_holds_both_files_and_is_the_same_every_time() -> None:
    repro = written(one_op())
    packed = bundle(repro, b"tensors")
    with zipfile.ZipFile(io.BytesIO(packed)) as archive:
        assert {name: archive.read(name) for name in archive.namelist()} == {
            "repro.py": repro.source.encode(),
            "data.pt": b"tensors",
        }
    assert bundle(repro, b"tensors") == packed


def test_long_literals_stay_compact() -> None:
    repro = written(one_op(code=f"torch.tensor({[n * 1.25 for n in range(40)]})"))
    assert repro.lines <= 20
    assert max(map(len, repro.source.splitlines())) <= 100


def test_definitions_stay_outside_and_settings_go_inside_try() -> None:
    setup = ("import torch._inductor.config as cfg", "class Pass:\n    pass", "cfg.post_grad_custom_pre_pass = Pass()")
    source = written(one_op(setup=setup)).source
    assert source.index("class Pass") < source.index("try:") < source.index("config.post_grad_custom_pre_pass")


@pytest.mark.parametrize("kind", [Kind.RUNTIME_ERROR, Kind.HANG])
def test_a_repro_waits_for_the_gpu_whose_kernels_fail_behind_their_call(kind: Kind) -> None:
    on_gpu = replace(
        one_op(), inputs=(Input("L_x_", replace(tensor(2), device="cuda:0"), code="torch.ones(2, device='cuda')"),)
    )
    lines = written(on_gpu, kind).source.splitlines()
    call = next(number for number, line in enumerate(lines) if "torch.compile(" in line and not line.startswith("#"))
    assert lines[call + 1].strip() == "torch.cuda.synchronize()"
    assert "synchronize" not in written(one_op(), kind).source


def test_the_function_gets_another_name_where_the_script_has_taken_it() -> None:
    source = written(one_op(".relu", setup=("def f(a):\n    return a",))).source
    assert "def function(x):" in source and "torch.compile(function)(x)" in source


def test_names_that_are_local_to_a_definition_are_free() -> None:
    setup = ("SCALE = 2", "def own(x, y=SCALE):\n    z = torch.ones(w)\n    return z", "torch._inductor.config.a = own")
    inputs = tuple(Input(name, tensor(2), code="torch.ones(2)") for name in ("x", "z", "w", "SCALE"))
    program = Program(inputs, (Node("a", ".add", tuple(Ref(i.name) for i in inputs)),), ("a",), setup=setup)
    assert "def f(x, z, w_2, " in written(program).source


@pytest.mark.parametrize(
    "code", ["torch.ones(2)", "torch.ones(2).requires_grad_()", "torch.ones(2, requires_grad=True)"]
)
def test_an_input_that_wants_a_gradient_says_so_once(code: str) -> None:
    source = written(one_op(code=code, grad=True), Kind.WRONG_GRADIENT).source
    assert "x = torch.ones(2, requires_grad=True)\n" in source


def test_a_joint_graph_is_compared_by_its_outputs() -> None:
    source = written(one_op(), Kind.WRONG_GRADIENT).source
    assert "autograd" not in source and "assert_close" in source


def test_gradients_are_asked_for_only_where_they_are_wrong() -> None:
    program = Program(
        inputs=tuple(Input(f"L_{n}_", tensor(2, grad=True), code="torch.ones(2)") for n in ("a", "b")),
        nodes=(Node("m", ".mul", (Ref("L_a_"), Ref("L_b_")), meta=tensor(2, grad=True)),),
        outputs=("m",),
        grad=True,
    )
    source = written(program, Kind.WRONG_GRADIENT, {"gradients": ["L_b_"]}).source
    assert "torch.autograd.grad(f(a, b).sum(), b)" in source
    assert "torch.ones(2, requires_grad=True)" in source
    missing = written(program, Kind.WRONG_GRADIENT, {"gradients": ["L_b_"], "unused": True}).source
    assert "torch.autograd.grad(f(a, b).sum(), b, allow_unused=True)" in missing


def literals() -> st.SearchStrategy[Any]:
    numbers = st.floats() | st.complex_numbers(allow_nan=True) | st.integers()
    leaves = st.none() | st.booleans() | numbers | st.text()
    return st.recursive(
        leaves,
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.lists(inner, max_size=3).map(tuple)
            | st.builds(slice, st.none() | st.integers(), st.none() | st.integers(), st.none() | st.integers())
        ),
        max_leaves=6,
    )


def same(one: Any, other: Any) -> bool:
    """Equality under which nan is nan and the sign of zero counts."""
    if isinstance(one, float) and isinstance(other, float):
        return (math.isnan(one) and math.isnan(other)) or (
            one == other and math.copysign(1, one) == math.copysign(1, other)
        )
    if isinstance(one, complex) and isinstance(other, complex):
        return all(
            a == b or (math.isnan(a) and math.isnan(b)) for a, b in ((one.real, other.real), (one.imag, other.imag))
        )
    if isinstance(one, slice) and isinstance(other, slice):
        return (one.start, one.stop, one.step) == (other.start, other.stop, other.step)
    if isinstance(one, tuple | list) and type(one) is type(other):
        return len(one) == len(other) and all(map(same, one, other))
    return type(one) is type(other) and one == other


@given(literals())
def test_arguments_survive_as_they_are(value: Any) -> None:
    program = Program(
        inputs=(Input("x", tensor(2), code="torch.ones(2)"),),
        nodes=(Node("a", "probe", (Ref("x"), value)),),
        outputs=("a",),
    )
    seen: list[Any] = []
    namespace: dict[str, Any] = {"probe": lambda x, v: seen.append(v)}
    exec(prose.function(prose.named(program, ()), "f"), namespace)
    namespace["f"](None)
    assert same(seen[0], value)


@given(st.text(max_size=200), st.text(max_size=200))
def test_odd_words_stay_inside_the_header(what: str, version: str) -> None:
    failure = Failure(kind=Kind.COMPILE_ERROR, message=version, exception_type=what)
    text = comment(failure, [Culprit(what=what)], {"torch": version, "device": what}, EVERY_TIME, 1, {})
    (statement,) = ast.parse(f"{text}\nx = {telltale(failure)!r}\n".encode()).body
    assert all(line.startswith("# ") for line in text.splitlines())
    assert isinstance(statement, ast.Assign)
    assert len(telltale(failure)) <= 38


def test_a_header_cannot_declare_an_encoding() -> None:
    assert "coding:" not in plain("-*- coding: rot13 -*-")
    assert "coding=" not in plain("vim: set fileencoding=rot13")


@pytest.mark.parametrize(
    ("kind", "message", "words"),
    [
        ("RuntimeError", "unhandled error", "unhandled error"),
        ("KeyError", "'x1'", "KeyError"),
        ("x.CppCompileError", "C++ compile error\n/tmp/a.cpp:1:2: error: \u2018compile\u2019 was not declared in this scope", "was not declared in this scope"),
        ("x.CppCompileError", "C++ compile error\n/tmp/a.cpp:1:2: error: 'compile' was not declared in this scope", "was not declared in this scope"),
        ("x.InductorError", "cannot open /tmp/torchinductor_me/ab/cab.py at 0x7f00 for buf12", "cannot open"),
        ("ValueError", "", "ValueError"),
        ("RuntimeError", "donated buffers require create_graph=False and retain_graph=False", "donated buffers require"),
        ("TypeError", "Linear(in_features=8, bias=True) got no input", "TypeError"),
        ("ValueError", "a number that is not positive has no square root in the reals", "a number that is not positive has no"),
    ],
)  # fmt: skip
def test_a_failure_is_known_again_by_words_that_stay(kind: str, message: str, words: str) -> None:
    assert telltale(Failure(kind=Kind.COMPILE_ERROR, message=message, exception_type=kind)) == words


@pytest.mark.parametrize(
    ("source", "lines"),
    [
        ('"""Module\n\ndocstring."""\n\nx = 1  # one\n# no\n', 1),
        ('x = """a\n\n# b\n"""\n', 3),
        ("def f(\n    a,\n):\n    return a\n", 4),
        ("", 0),
    ],
)
def test_lines_of_code(source: str, lines: int) -> None:
    assert code_lines(source) == lines


@pytest.mark.parametrize(
    ("kind", "backward", "said"),
    [
        (Kind.COMPILE_ERROR, True, "fails to compile the backward of aten.cos"),
        (Kind.COMPILE_ERROR, False, "fails to compile aten.cos"),
        (Kind.WRONG_GRADIENT, True, "computes wrong gradients for aten.cos"),
    ],
)
def test_the_comment_says_that_a_backward_fails(kind: Kind, backward: bool, said: str) -> None:
    text = comment(Failure(kind=kind), [Culprit(ops=["aten.cos"])], {}, EVERY_TIME, 1, {"backward": backward})
    assert said in text.replace("\n# ", " ")


def test_what_is_in_dispute_is_said_at_the_top_of_the_repro() -> None:
    failure = Failure(kind=Kind.WRONG_OUTPUT, stage=Stage.INDUCTOR, message="wrong", signature="wrong_output")
    text = comment(failure, [], {}, EVERY_TIME, 1, {"disputed": "Disputed: only the script's own tolerance says so."})
    assert "# Disputed: only the script's own tolerance says so." in text.splitlines()


def test_a_syntax_tree_that_was_written_out_looks_as_if_typed() -> None:
    text = '''
        def backend(graph, inputs):

            def run(*args):
                """Keep

                this."""
                return tuple((out for out in graph(*args)))
            return run
    '''
    typed = '''
        def backend(graph, inputs):
            def run(*args):
                """Keep

                this."""
                return tuple(out for out in graph(*args))

            return run
    '''
    assert assemble("# header", [dedent(text)]) == f"# header\n\n{dedent(typed)}"


@pytest.mark.parametrize(
    ("text", "typed"),
    [
        ("return (a, b)", "return a, b"),
        ("x = ((1, 2), (3, 4))", "x = (1, 2), (3, 4)"),
        ("x = (a), (b)", "x = (a), (b)"),
        ("x = (a,)", "x = (a,)"),
        ("x = ()", "x = ()"),
        ("x = 'ä', (b, c)", 'x = "ä", (b, c)'),
        ("f((a, b))", "f((a, b))"),
    ],
)
def test_a_tuple_has_no_parentheses_that_nobody_would_type(text: str, typed: str) -> None:
    written = assemble("#", [f"def f(a, b, c):\n    {text}\n    return a"])
    assert written.splitlines()[-2].strip() == typed


@pytest.mark.parametrize("name", ["and_", "or_", "is_", "not_", "lambda_", "match", "list"])
def test_no_value_is_named_after_a_word_of_the_language(name: str) -> None:
    program = Program(
        inputs=tuple(Input(n, tensor(2), code="torch.ones(2)") for n in "xy"),
        nodes=(
            Node("a", f"operator.{name}", (Ref("x"), Ref("y"))),
            Node("b", f"operator.{name}", (Ref("y"), Ref("a"))),
            Node("c", "torch.where", (Ref("a"), Ref("b"), Ref("a"), Ref("b"))),
        ),
        outputs=("c",),
    )
    definition = ast.parse(body_of(written(program))).body[0]
    names = {n.id for n in ast.walk(definition) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    assert names and not names & {*keyword.kwlist, *keyword.softkwlist, *dir(builtins)}


def test_an_import_stays_for_what_else_it_does() -> None:
    setup = (
        "import my_ops",
        "import torchvision, json",
        "from typing import Any",
        "from torch import nn",
        "from my_passes import (\n    own,\n    other,\n)",
    )
    source = written(one_op("torch.ops.torchvision.f", setup=(*setup, "torch._inductor.config.a = own"))).source
    lines = {line for line in source.splitlines() if line.startswith(("import", "from"))}
    assert lines == {"import torch", "import my_ops", "import torchvision", "from my_passes import own"}


def test_annotations_of_the_future_stay() -> None:
    source = written(one_op(setup=("from __future__ import annotations", "def own(x: Tensor):\n    pass"))).source
    assert "\nfrom __future__ import annotations\n" in source


def test_an_alias_leaves_the_others_on_its_line() -> None:
    setup = (
        "aten = torch.ops.aten; prims = torch.ops.prims",
        "SUM = aten.sum",
        "MANY = [prims.a, prims.b, prims.c, prims.d]",
    )
    source = written(one_op(setup=setup)).source
    assert "SUM = torch.ops.aten.sum\n" in source and "    prims = torch.ops.prims\n" in source


REGISTERING = ('lib = torch.library.Library("lib", "FRAGMENT")', 'lib.impl("f", len, "CPU")')


@pytest.mark.parametrize(
    ("kind", "rate"), [(Kind.MISSING_ERROR, EVERY_TIME), (Kind.WRONG_OUTPUT, Reproducibility(failed=1, runs=2))]
)
def test_what_can_be_registered_only_once_is_not_repeated(kind: Kind, rate: Reproducibility) -> None:
    source = written(one_op(setup=REGISTERING), kind, rate=rate).source
    assert source.count("lib.impl(") == 1
    repeated = source.index("def raised" if kind is Kind.MISSING_ERROR else "for _ in range")
    assert source.index("try:\n") < source.index("lib.impl(") < source.index("raise SystemExit(125)") < repeated


@pytest.mark.parametrize("setting", [INJECT, "torch._inductor.config.post_grad_custom_post_pass = Pass()"])
def test_what_is_only_set_stays_beside_the_inputs(setting: str) -> None:
    source = written(one_op(setup=(setting,)), Kind.MISSING_ERROR).source
    assert source.index("def raised") < source.index(setting) and source.count("try:") == 1


@pytest.mark.parametrize(
    "code", ["torch.f = wrap(torch.f)", "old = torch.f(1)", "torch.table.update(f=len)", "torch.count += 1"]
)
def test_what_depends_on_what_it_sets_is_set_once(code: str) -> None:
    source = written(one_op(setup=(code,)), Kind.MISSING_ERROR).source
    assert source.index(code) < source.index("def raised")


@pytest.mark.parametrize(
    ("target", "args", "kwargs"),
    [
        (".exponential_", (), {}), ("torch.normal", (1.0,), {}), ("torch.poisson", (), {}), (".geometric_", (0.5,), {}),
        (".cauchy_", (), {}), (".log_normal_", (), {}), ("torch.native_dropout", (0.5, True), {}),
        ("torch.ops.aten.native_dropout.default", (0.5, True), {}), ("torch.nn.functional.alpha_dropout", (0.5, True), {}),
        ("torch.nn.functional.scaled_dot_product_attention", (None, 0.5), {}),
        ("torch.nn.functional.scaled_dot_product_attention", (), {"dropout_p": 0.5}),
        ("torch.ops.aten._scaled_dot_product_flash_attention.default", (0.1, False), {}),
        ("torch.ops.aten.normal_functional.default", (), {}), ("torch.randn_like", (), {}), (".bernoulli_", (), {}),
    ],
)  # fmt: skip
def test_what_draws_random_numbers_gets_the_same_ones_on_both_sides(
    target: str, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> None:
    node = Node("out", target, (Ref("L_x_"), *args), tuple(kwargs.items()))
    source = written(replace(one_op(), nodes=(node,))).source
    assert "    torch.manual_seed(0)\n" in source
    sides = "".join(source.split())
    assert re.search(r"=run\(([\w.]+)\)(,|actual=)\(?run\(torch.compile\(\1\)\)", sides)


@pytest.mark.parametrize(
    ("target", "args"),
    [
        ("torch.nn.functional.normalize", ()), ("torch.nn.functional.poisson_nll_loss", (1.0,)),
        ("torch.nn.functional.scaled_dot_product_attention", (None, 0.0)),
        ("torch.nn.functional.scaled_dot_product_attention", ()), ("torch.ops.lib.abnormal.default", ()),
    ],
)  # fmt: skip
def test_what_draws_nothing_needs_no_seed(target: str, args: tuple[Any, ...]) -> None:
    node = Node("out", target, (Ref("L_x_"), *args))
    assert "manual_seed" not in written(replace(one_op(), nodes=(node,))).source


@pytest.mark.parametrize(
    ("places", "call"),
    [
        ({"": "torch.complex64"}, "f(x).sum().real"),
        ({"[0]": "torch.float32"}, "f(x)[0].sum()"),
        ({"[0]": "torch.float32", "[1]": "torch.float32"}, "sum(out.sum() for out in f(x) if out.requires_grad)"),
    ],
)
def test_gradients_are_those_of_all_that_was_differentiated(places: dict[str, str], call: str) -> None:
    """An operator that returns a tuple may be what the function returns, and reducing forgets what it returns."""
    source = written(one_op(".sort", grad=True), Kind.WRONG_GRADIENT, {"differentiated": places}).source
    assert f"torch.autograd.grad({call}, x)" in re.sub(r"\s+", " ", source).replace("( ", "(").replace(" )", ")")


@pytest.mark.parametrize(
    ("details", "looked_at"),
    [
        ({"aspect": "stride", "output": "[1]"}, "f(x)[1].stride()"),
        ({"aspect": "dtype", "output": ""}, "f(x).dtype"),
        ({"aspect": "device", "output": "[0][1]"}, "f(x)[0][1].device"),
        ({"aspect": "class", "output": "[0]"}, "type(f(x)[0])"),
        ({"aspect": "aliasing", "output": "[0]", "alias_of": "L_x_"}, "return out.untyped_storage().data_ptr() == x.untyped_"),
        ({"aspect": "aliasing", "output": "[1]", "alias_of_output": "[0]"}, "return out[1].untyped_storage().data_ptr() == out[0].unt"),
        ({"aspect": "identity", "output": "[1]", "alias_of_output": "[0]"}, "return out[1] is out[0]"),
        ({"aspect": "dtype", "gradients": ["L_x_"]}, "torch.autograd.grad(f(x).sum(), x)[0].dtype"),
    ],
)  # fmt: skip
def test_wrong_metadata_is_looked_at_where_it_is(details: Details, looked_at: str) -> None:
    assert looked_at in written(one_op(".qr", grad=True), Kind.WRONG_METADATA, details).source


def test_an_input_is_looked_at_after_the_call() -> None:
    details: Details = {"aspect": "stride", "input": "L_x_", "writes": ["L_x_"]}
    source = written(one_op("torch.ops.lib.f.default"), Kind.WRONG_METADATA, details).source
    assert "    fn(x)\n    return x.stride()\n" in source and "run(torch.compile(torch.ops.lib.f.default))" in source


@pytest.mark.parametrize(
    ("message", "said", "words"),
    [
        ("KeyError: 'no kernel'", "RuntimeError: lowering of foo failed", "lowering of foo failed"),
        ("KeyError: 'no'", "BackendCompilerFailed: backend='b' raised:\nKeyError: 'no'", "KeyError"),
        ("KeyError: 'no'", "BackendCompilerFailed: 'no'", "BackendCompilerFailed"),
        ("KeyError: a and b must have a size", "E: got KeyError('a and b must have a size')", "a and b must have a size"),
        ("KeyError: a and b must have a size", "", "a and b must have a size"),
        ("KeyError: f(*(FakeTensor(..., size=(2, 3)), FakeTensor(..., size=(4, 5))))", "", "KeyError"),
        ("E: <built-in function add> abcdefghijklmnopqrst <x> is no function", "", "is no function"),
    ],
)  # fmt: skip
def test_a_failure_is_known_again_by_what_reaches_the_caller(message: str, said: str, words: str) -> None:
    failure = Failure(kind=Kind.COMPILE_ERROR, message=message, exception_type="KeyError")
    assert telltale(failure, said) == words
    assert words in (said or message)


def test_the_scripts_own_names_stay_its_own() -> None:
    setup = (
        "def run(gm, inputs):\n    return gm",
        "def fn(x):\n    return describe, raised, data",
        "torch._inductor.config.a = fn",
    )
    program = replace(
        one_op(".add_", setup=setup),
        inputs=(Input("L_x_", tensor(2), golden="x"),),
        compile_kwargs=(("backend", "run"),),
    )
    source = written(program, details={"mutated": ["L_x_"]}).source
    assert "def run_2(fn_2):\n    data_2 = torch.load(" in source and '= data_2["' in source
    assert "run_2(f), run_2(torch.compile(f, backend=run))" in source and "config.a = fn\n" in source
    assert "def raised_2(fn_2):" in written(program, Kind.MISSING_ERROR).source
    assert "def describe_2(out):" in written(program, Kind.WRONG_METADATA).source
    assert "fn_2 = f if " in written(program, Kind.CRASH).source


def test_f_is_written_only_where_it_is_that_of_torch() -> None:
    own = ("import torchvision.transforms.functional as F", "torch._inductor.config.a = F.resize")
    source = written(one_op("torch.nn.functional.gelu", setup=own)).source
    assert "torch.compile(torch.nn.functional.gelu)(x)" in source and "torch.nn.functional as F" not in source
    usual = ("import torch.nn.functional as F", "torch._inductor.config.a = F.relu")
    assert "torch.compile(F.gelu)(x)" in written(one_op("torch.nn.functional.gelu", setup=usual)).source


@pytest.mark.parametrize(
    ("first", "needs_own"),
    [
        ("torch.clone", False), (".new_zeros", False), ("torch.empty_like", False), ("operator.add", False),
        ("torch.ops.aten.clone.default", False), (".view", True), ("operator.pos", True),
        (".contiguous", True), ("torch.ops.lib.add.default", True),
    ],
)  # fmt: skip
def test_inputs_are_made_anew_only_where_a_write_may_reach_them(first: str, needs_own: bool) -> None:
    nodes = (
        Node("a", first, (Ref("L_x_"),)),
        Node("b", ".flatten", (Ref("a"),)),
        Node("c", "operator.setitem", (Ref("b"), 0, Ref("L_x_"))),
    )
    program = replace(one_op(), nodes=nodes, outputs=("a",))
    assert ("run(f), run(torch.compile(f))" in written(program).source) is needs_own


def test_an_operator_that_python_spells_with_an_underscore_writes_nothing() -> None:
    nodes = (Node("a", "operator.and_", (Ref("L_x_"), True)), Node("b", "operator.iand", (Ref("a"), True)))
    assert "def run" not in written(replace(one_op(), nodes=nodes, outputs=("a",))).source


def moded(*nodes: Node, outputs: tuple[str, ...] = ("out",), grad: bool = True) -> str:
    return prose.function(
        Program(inputs=(Input("x", tensor(2, grad=grad)),), nodes=nodes, outputs=outputs, grad=grad), "f"
    )


ENTER, EXIT = "torch.amp.autocast_mode._enter_autocast", "torch.amp.autocast_mode._exit_autocast"
INFERENCE = "torch.autograd.grad_mode"
GRAD_MODE = "torch._C._set_grad_enabled"
SIN, COS = Node("sin", "torch.sin", (Ref("x"),)), Node("out", "torch.cos", (Ref("sin"),))


def entered(name: str = "mode", *values: Any) -> Node:
    return Node(name, ENTER, ("cpu", *values))


def left(name: str = "mode") -> Node:
    return Node(f"{name}_left", EXIT, (Ref(name),))


@pytest.mark.parametrize(
    ("nodes", "text"),
    [
        pytest.param(
            (entered("mode", None, False, None), SIN, COS, left()),
            'with torch.autocast("cpu", enabled=False): return torch.cos(torch.sin(x))',
            id="a whole function",
        ),
        pytest.param(
            (entered("mode", Code("torch.bfloat16"), True, True), SIN, left(), COS),
            'with torch.autocast("cpu", dtype=torch.bfloat16, cache_enabled=True): sin = torch.sin(x) return torch.cos(sin)',
            id="a part",
        ),
        pytest.param(
            (entered("one", None), entered("two", None, False), SIN, left("two"), COS, left("one")),
            'with torch.autocast("cpu"): with torch.autocast("cpu", enabled=False): sin = torch.sin(x) return torch.cos(sin)',
            id="nested",
        ),
        pytest.param(
            (
                Node("mode", f"{INFERENCE}._enter_inference_mode", (True,)),
                SIN,
                Node("gone", f"{INFERENCE}._exit_inference_mode", (Ref("mode"),)),
                COS,
            ),
            "with torch.inference_mode(True): sin = torch.sin(x) return torch.cos(sin)",
            id="inference",
        ),
        pytest.param((entered("mode", None, False), left(), SIN, COS), "return torch.cos(torch.sin(x))", id="empty"),
        pytest.param(
            (Node("off", GRAD_MODE, (False,)), SIN, Node("on", GRAD_MODE, (True,)), COS),
            "with torch.no_grad(): sin = torch.sin(x) return torch.cos(sin)",
            id="gradients off",
        ),
        pytest.param(
            (SIN, Node("off", GRAD_MODE, (False,)), COS),
            "sin = torch.sin(x) with torch.no_grad(): return torch.cos(sin)",
            id="gradients off to the end",
        ),
    ],
)
def test_modes_are_written_as_blocks(nodes: tuple[Node, ...], text: str) -> None:
    assert " ".join(moded(*nodes).replace("'", '"').split()) == f"def f(x): {text}"


@pytest.mark.parametrize(
    "nodes",
    [
        pytest.param((entered("mode", None, False), SIN, COS), id="never left"),
        pytest.param((SIN, COS, Node("off", GRAD_MODE, (False,))), id="off to the end"),
        pytest.param((Node("off", GRAD_MODE, (False,)), SIN, Node("again", GRAD_MODE, (False,)), COS), id="off twice"),
        pytest.param(
            (
                Node("off", GRAD_MODE, (False,)),
                SIN,
                Node("again", GRAD_MODE, (False,)),
                COS,
                Node("on", GRAD_MODE, (True,)),
                Node("tan", "torch.tan", (Ref("out"),)),
            ),
            id="off twice, and on once",
        ),
    ],
)
def test_a_mode_without_its_end_is_no_block(nodes: tuple[Node, ...]) -> None:
    assert "with " not in moded(*nodes)


def test_gradients_are_not_turned_on_behind_a_block_where_they_were_off() -> None:
    nodes = (Node("off", GRAD_MODE, (False,)), SIN, Node("on", GRAD_MODE, (True,)), COS)
    assert "with " not in moded(*nodes, grad=False)


def test_what_is_used_inside_of_a_block_and_behind_it_keeps_its_name() -> None:
    both = Node("out", "torch.add", (Ref("sin"), Ref("cos")))
    cos = Node("cos", "torch.cos", (Ref("sin"),))
    text = moded(entered("mode", None, False), SIN, cos, left(), both)
    assert "sin = torch.sin(x)" in text and "torch.cos(sin)" in text
