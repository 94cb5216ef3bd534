"""Rendered text means what the program means: it parses, and evaluates to the same thing."""

from __future__ import annotations

import ast
import operator
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from minimizer.engine.program import render
from minimizer.engine.program.arguments import Code, Ref
from minimizer.engine.program.model import Input, Node, Program

LEAVES = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8) | st.complex_numbers()
VALUES = st.recursive(
    LEAVES,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.lists(inner, max_size=4).map(tuple)
        | st.dictionaries(st.text(max_size=4) | st.integers(), inner, max_size=3)
        | st.builds(slice, inner, inner, inner)
    ),
    max_leaves=10,
)
NUMBERS = st.integers(-9, 9)
ARITHMETIC = [
    name for name in render.INFIX if name not in ("matmul", "pow", "truediv", "floordiv", "mod", "lshift", "rshift", "is_", "is_not")
]  # fmt: skip


class Index:
    """Gives back what stood between the brackets."""

    def __getitem__(self, index: Any) -> Any:
        return index


def evaluate(text: str, **names: Any) -> Any:
    return eval(compile(ast.parse(text, mode="eval"), "<rendered>", "eval"), {}, names)


def run(program: Program, *args: Any) -> Any:
    namespace: dict[str, Any] = {"operator": operator}
    exec(render.function(program), namespace)
    return namespace["f"](*args)


def node(target: str, *args: Any, name: str = "y", **kwargs: Any) -> Node:
    return Node(name, target, args, tuple(kwargs.items()))


@example(float("nan"))  # trap 11: upstream's repro ends in a NameError
@example(-1j)
@example(complex(0, -1))
@example(complex(-0.0, -1))
@given(VALUES)
def test_trap_11_a_literal_evaluates_to_itself(value: Any) -> None:
    assert repr(evaluate(render.arg(value))) == repr(value)


@given(VALUES)
def test_a_subscript_evaluates_to_its_index(index: Any) -> None:
    text = render.expression(node("operator.getitem", Ref("x"), index))
    assert repr(evaluate(text, x=Index())) == repr(index)


@pytest.mark.parametrize(
    ("index", "text"),
    [
        (slice(None), "x[:]"),
        (slice(1, None), "x[1:]"),
        (slice(None, -1), "x[:-1]"),
        (slice(None, None, 2), "x[::2]"),
        ((slice(None), 0), "x[:, 0]"),
        ((slice(0, 2),), "x[0:2,]"),
        ((Code("..."), None, -1), "x[..., None, -1]"),
        ((), "x[()]"),
        (Ref("mask"), "x[mask]"),
        ("key", "x['key']"),
        (([0, 1], (2, 3)), "x[[0, 1], (2, 3)]"),
        (slice(Ref("n"), None), "x[n:]"),
    ],
)
def test_subscripts_read_as_a_person_writes_them(index: Any, text: str) -> None:
    assert render.expression(node("operator.getitem", Ref("x"), index)) == text


@given(st.sampled_from(ARITHMETIC), NUMBERS, NUMBERS)
def test_infix_operators_with_any_operands(name: str, left: int, right: int) -> None:
    text = render.expression(node(f"operator.{name}", left, right))
    assert evaluate(text) == getattr(operator, name)(left, right)


@given(st.sampled_from(["pow", "truediv", "floordiv", "mod"]), st.floats(-9, 9), st.integers(1, 4))
def test_negative_operands_bind_as_they_should(name: str, left: float, right: int) -> None:
    """``-2.0 ** 2`` would be -4."""
    assert evaluate(render.expression(node(f"operator.{name}", left, right))) == getattr(operator, name)(left, right)


@given(st.sampled_from(["neg", "pos", "invert", "inv"]), NUMBERS)
def test_prefix_operators(name: str, value: int) -> None:
    assert evaluate(render.expression(node(f"operator.{name}", value))) == getattr(operator, name)(value)


def test_an_expression_as_operand_keeps_its_meaning() -> None:
    text = render.expression(node("operator.mul", Ref("x"), Code("1 + 2")))
    assert evaluate(text, x=5) == 15
    assert evaluate(render.expression(node(".conjugate", Code("1 + 2j"))), x=5) == 1 - 2j


@pytest.mark.parametrize(
    "value", [-1, -1.5, 3.0, 1 + 2j, True, float("nan"), float("-inf"), None, "text", (1,), [1], {1: 2}]
)
def test_any_literal_can_have_a_method_called(value: Any) -> None:
    assert repr(evaluate(render.expression(node(".__repr__", value)))) == repr(repr(value))
    assert evaluate(render.expression(node("getattr", value, "__class__"))) is type(value)


@pytest.mark.parametrize(
    ("rendered", "text"),
    [
        (node("torch.relu", Ref("x")), "y = torch.relu(x)"),
        (node("torch.sum", Ref("x"), dim=-1, keepdim=True), "y = torch.sum(x, dim=-1, keepdim=True)"),
        (node(".view", Ref("x"), -1, 8), "y = x.view(-1, 8)"),
        (node(".to", Ref("x"), dtype=Code("torch.float16")), "y = x.to(dtype=torch.float16)"),
        (node("getattr", Ref("x"), "mT"), "y = x.mT"),
        (node("torch.full", (2, 2), float("-inf")), 'y = torch.full((2, 2), float("-inf"))'),
        (node("torch.cat", [Ref("a"), Ref("b")], 1), "y = torch.cat([a, b], 1)"),
        (node("operator.setitem", Ref("x"), (slice(None), 0), 2), "x[:, 0] = 2"),
        (node("operator.delitem", Ref("x"), 0), "del x[0]"),
        (node("operator.iadd", Ref("x"), -1), "x += -1; y = x"),
        (node("operator.iadd", 2, Ref("x")), "y = operator.iadd(2, x)"),
        (node("operator.is_", Ref("x"), None), "y = x is (None)"),
        (node("operator.add", Ref("x"), 1, alpha=2), "y = operator.add(x, 1, alpha=2)"),
    ],
)
def test_statements(rendered: Node, text: str) -> None:
    assert render.statement(rendered) == text
    ast.parse(text)


@st.composite
def arithmetic_programs(draw: st.DrawFn) -> tuple[Program, list[int]]:
    """Straight-line integer programs, and the values that plain interpretation gives."""
    values = {"a": draw(NUMBERS), "b": draw(NUMBERS)}
    nodes = []
    for index in range(draw(st.integers(1, 6))):
        names = st.sampled_from(sorted(values)).map(Ref)
        target = draw(st.sampled_from(ARITHMETIC))
        args = (draw(names | NUMBERS), draw(names | NUMBERS))
        nodes.append(Node(f"n{index}", f"operator.{target}", args))
        left, right = (values[a.name] if isinstance(a, Ref) else a for a in args)
        values[f"n{index}"] = getattr(operator, target)(left, right)
    outputs = tuple(node.name for node in nodes)
    inputs = (Input("a", code="1"), Input("b", code="2"))
    return Program(inputs, tuple(nodes), outputs), list(values.values())


@given(arithmetic_programs())
def test_a_function_computes_what_its_nodes_say(case: tuple[Program, list[int]]) -> None:
    program, (a, b, *expected) = case
    result = run(program, a, b)
    assert result == (tuple(expected) if len(expected) > 1 else expected[0])


def test_in_place_operators_change_the_object_and_bind_the_name() -> None:
    program = Program(
        inputs=(Input("x", code="[1]"),),
        nodes=(node("operator.iadd", Ref("x"), [2]), node("operator.setitem", Ref("y"), 0, -1, name="z")),
        outputs=("y",),
    )
    given_list = [1]
    assert run(program, given_list) is given_list
    assert given_list == [-1, 2]


@pytest.mark.parametrize("name", sorted(render.IN_PLACE))
def test_every_in_place_operator_is_python(name: str) -> None:
    ast.parse(render.statement(node(f"operator.{name}", Ref("x"), Ref("z"))))
    assert hasattr(operator, name)


def test_a_function_without_nodes_or_outputs_is_python() -> None:
    assert run(Program((), (), ())) is None


def test_a_program_that_only_writes_returns_nothing() -> None:
    program = Program((Input("x", code="[1]"),), (node("operator.setitem", Ref("x"), 0, 5),), ())
    given_list = [1]
    assert run(program, given_list) is None
    assert given_list == [5]


def test_what_comes_from_the_future_comes_first() -> None:
    """Python takes it nowhere else."""
    text = render.behind("import torch\n", ["def f(): pass", "from __future__ import annotations", "x = 1"])
    compile(text, "program", "exec", dont_inherit=True)
    assert text.splitlines() == ["from __future__ import annotations", "import torch", "", "def f(): pass", "x = 1"]
