"""The text of generated inputs: what a maintainer would write, and exactly the strides that are asked for."""

from __future__ import annotations

import math

import pytest
from fake_check import FakeCheck, both, has, no_literal
from toy_programs import chain

from minimizer.engine.program.model import Input, Program, TensorMeta
from minimizer.engine.reduce.graph import reduce
from minimizer.engine.reduce.graph.generators import BOOL, FLOAT, INT, generator_of, generators


@pytest.mark.parametrize(
    ("meta", "grad", "texts"),
    [
        (
            TensorMeta((2, 3), "torch.float32", (3, 1)),
            False,
            [
                "torch.randn(2, 3)",
                "torch.rand(2, 3)",
                "torch.ones(2, 3)",
                "torch.arange(6.0).reshape(2, 3)",
                "-torch.rand(2, 3)",
                "torch.full((2, 3), -2.0)",
            ],
        ),
        (
            TensorMeta((4,), "torch.bfloat16", (1,), requires_grad=True),
            True,
            [
                "torch.randn(4, dtype=torch.bfloat16).requires_grad_()",
                "torch.rand(4, dtype=torch.bfloat16).requires_grad_()",
                "torch.ones(4, dtype=torch.bfloat16).requires_grad_()",
                "torch.arange(4, dtype=torch.bfloat16).requires_grad_()",
                "(-torch.rand(4, dtype=torch.bfloat16)).requires_grad_()",
                "torch.full((4,), -2.0, dtype=torch.bfloat16).requires_grad_()",
            ],
        ),
        (
            TensorMeta((2, 2), "torch.int64", (2, 1)),
            False,
            [
                "torch.arange(4).reshape(2, 2)",
                "torch.zeros(2, 2, dtype=torch.int64)",
                "torch.ones(2, 2, dtype=torch.int64)",
                "torch.randint(0, 2, (2, 2))",
                "torch.randint(0, 10, (2, 2))",
            ],
        ),
        (
            TensorMeta((), "torch.bool", ()),
            False,
            ["torch.ones((), dtype=torch.bool)", "torch.zeros((), dtype=torch.bool)", "(torch.rand(()) > 0.5)"],
        ),
        (
            TensorMeta((3,), "torch.complex64", (1,)),
            False,
            ["torch.randn(3, dtype=torch.complex64)", "torch.ones(3, dtype=torch.complex64)"],
        ),
    ],
)
def test_text(meta: TensorMeta, grad: bool, texts: list[str]) -> None:
    assert [g.code(meta, grad=grad) for g in generators(meta)] == texts


@pytest.mark.parametrize(
    ("shape", "stride", "text"),
    [
        ((2, 3), (1, 2), "torch.randn(3, 2).t()"),
        ((2, 3, 4), (12, 1, 3), "torch.randn(2, 4, 3).permute(0, 2, 1)"),
        ((2, 3), (6, 2), "torch.randn(11).as_strided((2, 3), (6, 2))"),
        ((4, 3), (0, 1), "torch.randn(3).as_strided((4, 3), (0, 1))"),
        ((1, 3), (7, 1), "torch.randn(1, 3)"),
    ],
)
def test_strides_are_kept(shape: tuple[int, ...], stride: tuple[int, ...], text: str) -> None:
    assert FLOAT[0].code(TensorMeta(shape, "torch.float32", stride), grad=False) == text


def test_a_device_is_named() -> None:
    meta = TensorMeta((2,), "torch.float16", (1,), device="cuda")
    assert FLOAT[0].code(meta, grad=False) == 'torch.randn(2, dtype=torch.float16, device="cuda")'


@pytest.mark.parametrize("dtype", ["torch.float32", "torch.int32", "torch.bool", "torch.float8_e5m2"])
def test_a_generator_knows_its_own_code(dtype: str) -> None:
    meta = TensorMeta((2, 3), dtype, (3, 1))
    for generator in generators(meta):
        assert generator_of(Input("x", meta, code=generator.code(meta, grad=False))) == generator
    assert (len(FLOAT), len(INT), len(BOOL)) == (6, 5, 3)


def test_strides_that_are_not_needed_go() -> None:
    meta = TensorMeta((2, 3), "torch.float32", (1, 2))
    result = reduce(chain(["torch.a"], meta=meta), check=FakeCheck(has("torch.a")), literal=no_literal)
    assert result.best.inputs[0].code == "torch.ones(1)"


def test_a_number_below_minus_one_needs_no_random_values() -> None:
    """Among three random numbers one is low enough; of written ones a single one will do."""

    def is_low_somewhere(program: Program) -> bool:
        code = program.inputs[0].code or "golden"
        shape = program.inputs[0].meta.shape if program.inputs[0].meta else ()
        return "-2.0" in code or code == "golden" or ("randn" in code and math.prod(shape) >= 3)

    meta = TensorMeta((4, 2), "torch.float32", (2, 1))
    result = reduce(
        chain(["torch.a"], meta=meta), check=FakeCheck(both(has("torch.a"), is_low_somewhere)), literal=no_literal
    )
    assert result.best.inputs[0].code == "torch.full((1,), -2.0)"


@pytest.mark.parametrize(("value", "left"), [("nan", "nan"), ("-inf", "-inf"), ("0.5", None)])
def test_of_data_that_are_not_finite_a_single_value_is_left(value: str, left: str | None) -> None:
    """No finite values show the failure; and none of another sort is put in the place of finite data."""
    literal = (
        f'torch.tensor([[0.1, float("{value}")], [0.2, 0.3]])' if left else "torch.tensor([[0.1, 0.5], [0.2, 0.3]])"
    )

    tried: list[str] = []

    def is_special(program: Program) -> bool:
        tried.append(code := program.inputs[0].code or literal)
        return code == literal or 'float("' in code

    meta = TensorMeta((2, 2), "torch.float32", (2, 1))
    check = FakeCheck(both(is_special, has("torch.a")))
    result = reduce(chain(["torch.a"], meta=meta), check=check, literal=lambda _: literal)
    assert result.best.inputs[0].code == (f'torch.full((1,), float("{left}"))' if left else literal)
    assert any("float(" in code for code in tried if code != literal) is (left is not None)


def test_strides_that_are_needed_stay() -> None:
    meta = TensorMeta((2, 3), "torch.float32", (1, 2))
    executor = FakeCheck(
        lambda p: any(
            i.meta is not None and i.meta.stride == (1, i.meta.shape[0]) and min(i.meta.shape) >= 2 for i in p.inputs
        )
    )
    result = reduce(chain(["torch.a"], meta=meta), check=executor, literal=no_literal)
    assert result.best.inputs[0].code == "torch.ones(2, 2).t()"


def test_a_small_golden_value_is_written_out_before_a_data_file_is_needed() -> None:
    executor = FakeCheck(lambda p: p.inputs[0].golden is not None or p.inputs[0].code == "torch.tensor([3.0])")
    result = reduce(
        chain(["torch.a"]), check=executor, literal=lambda key: "torch.tensor([3.0])" if key == "x" else None
    )
    assert result.best.inputs[0].code == "torch.tensor([3.0])"


def test_data_that_nothing_can_make_stays_golden() -> None:
    executor = FakeCheck(lambda p: any(i.golden is not None for i in p.inputs))
    result = reduce(chain(["torch.a"]), check=executor, literal=no_literal)
    assert result.best.inputs[0].golden == "x"
    assert result.one_minimal
