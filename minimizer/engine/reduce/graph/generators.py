"""Generators: expressions that create an input's value, in the form in which a maintainer would write them.

A generator creates one type of value (ones, normal random, a range…) for any shape, dtype and stride. An input whose
code came from a generator can be recreated in another shape; a literal cannot.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from minimizer.engine.program.model import Input, TensorMeta

_FLOATS = {"torch.float32", "torch.float64", "torch.float16", "torch.bfloat16"}
_FLOATS_BY_CAST = {
    "torch.float8_e4m3fn", "torch.float8_e5m2", "torch.float8_e4m3fnuz", "torch.float8_e5m2fnuz",
}  # fmt: skip
_COMPLEX = {"torch.complex64", "torch.complex128"}
_INTS = {
    "torch.int64", "torch.int32", "torch.int16", "torch.int8",
    "torch.uint8", "torch.uint16", "torch.uint32", "torch.uint64",
}  # fmt: skip
UNUSUAL_FLOATS = (_FLOATS | _FLOATS_BY_CAST) - {"torch.float32"}
_GOLDEN_RANK, _LITERAL_RANK = 9, 8


Expression = Callable[[TensorMeta], str]


@dataclass(frozen=True)
class Generator:
    """One type of value. ``rank``: order of types by readability of their values, lowest first."""

    name: str
    rank: int
    expression: Expression
    """Source text of a contiguous tensor of ``meta.shape`` and ``meta.dtype``."""

    def code(self, meta: TensorMeta, *, grad: bool) -> str:
        """Source text of a value with exactly this metadata; ``grad``: with ``requires_grad`` if the metadata has it."""
        text = _strided(self.expression, meta)
        if grad and meta.requires_grad:
            text = f"{_operand(text)}.requires_grad_()"
        return text


def _call(function: str, meta: TensorMeta, positional: str, *, default: str) -> str:
    """``torch.function(positional, dtype=..., device=...)`` without arguments that equal the default."""
    parts = [positional]
    if meta.dtype != default:
        parts.append(f"dtype={meta.dtype}")
    if meta.device != "cpu":
        parts.append(f'device="{meta.device}"')
    return f"torch.{function}({', '.join(parts)})"


def _sizes(meta: TensorMeta) -> str:
    return ", ".join(map(str, meta.shape)) or "()"


def _shape(meta: TensorMeta) -> str:
    return str(tuple(meta.shape))


def _filled(function: str) -> Expression:
    """A factory function that takes sizes and returns float32 by default."""
    return lambda meta: _call(function, meta, _sizes(meta), default="torch.float32")


def _arange(meta: TensorMeta) -> str:
    # torch.arange(4) is int64 and torch.arange(4.0) float32: neither needs an explicit dtype.
    end = f"{meta.numel}.0" if meta.dtype == "torch.float32" else f"{meta.numel}"
    default = meta.dtype if meta.dtype == "torch.float32" else "torch.int64"
    flat = _call("arange", meta, end, default=default)
    return flat if len(meta.shape) == 1 else f"{flat}.reshape({_sizes(meta)})"


def _randint(high: int) -> Expression:
    return lambda meta: _call("randint", meta, f"0, {high}, {_shape(meta)}", default="torch.int64")


def _coin(meta: TensorMeta) -> str:
    return f"({_filled('rand')(replace(meta, dtype='torch.float32'))} > 0.5)"


def _negative(meta: TensorMeta) -> str:
    return f"-{_filled('rand')(meta)}"


def _twos_below_zero(meta: TensorMeta) -> str:
    # The dtype of torch.full is that of its value, float32 for a float.
    return _call("full", meta, f"{_shape(meta)}, -2.0", default="torch.float32")


def _nonfinite(value: str) -> Expression:
    return lambda meta: _call("full", meta, f"{_shape(meta)}, {nonfinite(value)}", default="torch.float32")


def nonfinite(value: str) -> str:
    """Source text for ``nan``, ``inf`` or ``-inf``."""
    return f'float("{value}")'


def _cast(expression: Expression) -> Expression:
    """The expression for a dtype that no factory takes: created in float32, then cast."""
    return lambda meta: f"{_operand(expression(replace(meta, dtype='torch.float32')))}.to({meta.dtype})"


def _operand(text: str) -> str:
    """The expression as the receiver of a method call: in parentheses if it begins with a minus."""
    return f"({text})" if text.startswith("-") else text


FLOAT = (
    Generator("randn", 4, _filled("randn")),
    Generator("rand", 3, _filled("rand")),
    Generator("ones", 0, _filled("ones")),
    Generator("arange", 2, _arange),
    Generator("-rand", 5, _negative),
    Generator("-2", 2, _twos_below_zero),
)
NONFINITE = tuple(Generator(value, 6, _nonfinite(value)) for value in ("nan", "inf", "-inf"))
"""For floating-point inputs, but only in place of data that contain such a value: on other data they would cause
another failure.
"""
CAST = tuple(Generator(g.name, g.rank, _cast(g.expression)) for g in FLOAT)
COMPLEX = (Generator("randn", 4, _filled("randn")), Generator("ones", 0, _filled("ones")))
INT = (
    Generator("arange", 2, _arange),
    Generator("zeros", 1, _filled("zeros")),
    Generator("ones", 0, _filled("ones")),
    Generator("randint 2", 3, _randint(2)),
    Generator("randint 10", 4, _randint(10)),
)
BOOL = (Generator("ones", 0, _filled("ones")), Generator("zeros", 1, _filled("zeros")), Generator("coin", 4, _coin))


def generators(meta: TensorMeta) -> tuple[Generator, ...]:
    """The generators for this dtype, the most likely to keep a failure first."""
    if meta.dtype in _FLOATS:
        return FLOAT
    if meta.dtype in _FLOATS_BY_CAST:
        return CAST
    if meta.dtype in _COMPLEX:
        return COMPLEX
    if meta.dtype in _INTS:
        return INT
    return BOOL if meta.dtype == "torch.bool" else ()


def generator_of(item: Input) -> Generator | None:
    """The generator that wrote this input's code; None for golden values, views, literals and scalars."""
    meta = item.meta
    if item.code is None or meta is None or item.view is not None:
        return None
    known = (*generators(meta), *(NONFINITE if generators(meta) is FLOAT else ()))
    return next((g for g in known if item.code in (g.code(meta, grad=True), g.code(meta, grad=False))), None)


def rank(item: Input) -> int:
    """The rank of an input's value: 0 for ones, the simplest, up to 9 for golden data.

    A view has the values of its base.
    """
    if item.view is not None:
        return 0
    if item.golden is not None:
        return _GOLDEN_RANK
    found = generator_of(item)
    return _LITERAL_RANK if found is None else found.rank


def _strided(expression: Expression, meta: TensorMeta) -> str:
    """The expression with the strides of ``meta``: as is, transposed, permuted, or as_strided of a flat one."""
    stride = meta.stride
    if stride is None or meta.is_contiguous:
        return expression(meta)
    order = sorted(range(len(stride)), key=lambda d: (-stride[d], d))
    base = replace(meta, shape=tuple(meta.shape[d] for d in order), stride=tuple(stride[d] for d in order))
    if base.is_contiguous:
        dims = tuple(order.index(d) for d in range(len(order)))
        text = _operand(expression(base))
        return f"{text}.t()" if dims == (1, 0) else f"{text}.permute({', '.join(map(str, dims))})"
    span = 1 + sum((size - 1) * step for size, step in zip(meta.shape, stride, strict=True))
    return f"{_operand(expression(replace(meta, shape=(span,), stride=None)))}.as_strided({meta.shape}, {stride})"
