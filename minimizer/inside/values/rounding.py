"""Facts about operators: which only move values, which round, jump, sum or draw random numbers, and which operands they write to."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor
from torch.utils._pytree import tree_leaves

# Operators that pass on given values: they move, select or compare, and never round. Views are recognised by their schema.
EXACT = frozenset(
    [
        "abs", "amax", "amin", "as_strided_scatter", "bitwise_and", "bitwise_not", "bitwise_or", "bitwise_xor",
        "cat", "clamp", "clamp_max", "clamp_min", "clone", "complex", "constant_pad_nd", "copy", "diag_embed",
        "diagonal_scatter", "embedding", "empty", "empty_like", "empty_permuted", "empty_strided", "eye", "fill",
        "flip", "fmax", "fmin", "full", "full_like", "gather", "hardtanh", "index", "index_copy", "index_fill",
        "index_put", "index_select", "kthvalue", "lift", "lift_fresh", "lift_fresh_copy", "masked_fill",
        "masked_scatter", "masked_select", "max", "max_pool1d", "max_pool2d_with_indices",
        "max_pool3d_with_indices", "maximum", "median", "min", "minimum", "mode", "nan_to_num", "nanmedian", "neg",
        "new_empty", "new_empty_strided", "new_full", "new_ones", "new_zeros", "nonzero", "ones", "ones_like",
        "pixel_shuffle", "pixel_unshuffle", "put", "reflection_pad1d", "reflection_pad2d", "reflection_pad3d",
        "relu", "repeat", "repeat_interleave", "replication_pad1d", "replication_pad2d", "replication_pad3d",
        "roll", "rot90", "scalar_tensor", "scatter", "select_scatter", "slice_scatter", "sort", "stack", "take",
        "topk", "trace_copy", "tril", "triu", "unfold_copy", "unique_consecutive", "upsample_nearest1d",
        "upsample_nearest2d", "upsample_nearest3d", "where", "zero", "zeros", "zeros_like", "_to_copy", "_unique2",
        "_local_scalar_dense", "_unsafe_index", "_unsafe_view",
    ]
)  # fmt: skip

# Jumps with a floating-point result: a last bit of the operand can change it by a whole step.
JUMPING = frozenset(
    [
        "ceil",
        "fake_quantize_per_channel_affine_cachemask",
        "fake_quantize_per_tensor_affine_cachemask",
        "fix",
        "floor",
        "floor_divide",
        "fmod",
        "frac",
        "frexp",
        "hardshrink",
        "heaviside",
        "nextafter",
        "quantize_per_channel",
        "quantize_per_tensor",
        "remainder",
        "round",
        "sgn",
        "sign",
        "threshold",
        "trunc",
    ]
)

# Jumps that also round, even with exact operands.
_ROUNDING_JUMPS = frozenset(
    ["fake_quantize_per_channel_affine_cachemask", "fake_quantize_per_tensor_affine_cachemask", "remainder"]
)
STEPPING = frozenset(["linspace", "logspace"])
"""Operators that round a float sequence and, with an integer dtype, convert it: the rounding happens inside."""

UNINITIALISED = frozenset(("empty", "empty_like", "empty_permuted", "empty_strided", "new_empty", "new_empty_strided"))

# Operators that sum many products or terms, grouped by how the number of terms of each result is found.
_MATMULS = frozenset(
    ["mm", "bmm", "addmm", "baddbmm", "addbmm", "mv", "addmv", "dot", "vdot", "linear", "matmul", "addr"]
)
NORMALIZATIONS = frozenset(
    [
        "native_layer_norm",
        "native_group_norm",
        "native_batch_norm",
        "_native_batch_norm_legit",
        "_native_batch_norm_legit_functional",
        "cudnn_batch_norm",
    ]
)
"""Operators that return the normalized tensor, the means and the reciprocal standard deviations."""
RUNNING_STATISTICS = frozenset(["running_mean", "running_var"])
"""Parameters of normalizations in the schemas of operators."""
SOFTMAXES = frozenset(["logsumexp", "_softmax", "_log_softmax", "_safe_softmax"])
"""Operators on exponents and a dimension, or several."""
_MULTIPLYING = SOFTMAXES | frozenset(
    ["prod", "cumprod", "logcumsumexp", "_softmax_backward_data", "_log_softmax_backward_data"]
)
"""Reductions that multiply their terms, or add exponents of them.

A term may be moved by one rounding only, since the function applied to it multiplies the error.
"""
_SUMMING = frozenset(
    [
        "sum",
        "mean",
        "var",
        "std",
        "var_mean",
        "std_mean",
        "norm",
        "linalg_vector_norm",
        "nansum",
        "nanmean",
        "native_batch_norm_backward",
        "cumsum",
        "trace",
        "native_layer_norm_backward",
        "native_group_norm_backward",
        "_fused_rms_norm",
        "avg_pool2d",
        "_adaptive_avg_pool2d",
        "nll_loss_forward",
        "nll_loss2d_forward",
        "mse_loss",
        "binary_cross_entropy",
        "huber_loss",
        "smooth_l1_loss",
        "embedding_dense_backward",
        "index_add",
        "scatter_add",
        "scatter_reduce",
    ]
)
"""Reductions that add their terms, or a function of each that multiplies no error by much: squares, losses.

The result moves with the order of the sum, whose terms may each be moved by the roundings of the partial sums.
"""
_REDUCTIONS = _SUMMING | NORMALIZATIONS | _MULTIPLYING
_ALONG_A_DIMENSION = (_MULTIPLYING - {"prod", "logsumexp"}) | {"cumsum"}
"""Operators whose results each depend on a whole row, with as many results as operand elements."""
_BY_INDEX = frozenset(["index_add", "scatter_add", "scatter_reduce", "embedding_dense_backward"])
_NORMALIZATIONS_BACKWARD = frozenset(
    ["native_layer_norm_backward", "native_group_norm_backward", "native_batch_norm_backward"]
)
_CONVOLUTIONS = frozenset(["convolution", "convolution_backward", "mkldnn_convolution", "cudnn_convolution"])
_ATTENTION = "_scaled_dot_product"

# Random operators whose numbers can be drawn once and fed to a run in another precision.
NATIVE_DROPOUT = "native_dropout"
"""CUDA's dropout, which also returns the mask that it draws."""
DRAWN_ONCE = frozenset(
    [
        "rand",
        "randn",
        "randint",
        "rand_like",
        "randn_like",
        "randint_like",
        "randperm",
        "bernoulli",
        "uniform",
        "normal",
        "random",
        "exponential",
        "log_normal",
        "cauchy",
        "geometric",
        "normal_functional",
    ]
)


def operator_name(func: Any) -> str:
    """The base name: ``add`` for ``aten.add_.Tensor`` and ``aten._foreach_add``, since in-place and foreach variants compute the same.

    Operators outside aten and prims keep their namespace, since nothing is known about them.
    """
    library, name = func._schema.name.split("::")
    if library not in ("aten", "prims"):
        return f"{library}::{name}"
    name = name.removeprefix("_foreach_")
    return name[:-1] if name.endswith("_") and not name.endswith("__") else name


def takes_no_values(func: Any) -> bool:
    """Whether an operator uses only the metadata of its operand, such as ``zeros_like``."""
    name = operator_name(func) if isinstance(func, torch._ops.OpOverload) else ""
    return name.endswith("_like") or name.startswith("new_")


def name_by_effect(func: Any, args: Any, kwargs: Any) -> str:
    """The operator's base name, or with these arguments that of an equivalent one: an accumulating ``put`` is an ``index_add``."""
    name = operator_name(func)
    if name in ("put", "index_put") and _argument(func, "accumulate", args, kwargs):
        return "index_add"
    if name == "scatter" and _argument(func, "reduce", args, kwargs):
        return "scatter_reduce"
    return name


def _argument(func: Any, name: str, args: Any, kwargs: Any) -> Any:
    names = [argument.name for argument in func._schema.arguments]
    position = names.index(name) if name in names else len(args)
    return args[position] if position < len(args) else kwargs.get(name)


def call_and_see_draws(func: Any, args: Any, kwargs: Any) -> tuple[Any, bool]:
    """Call an operator; returns its result and whether it drew random numbers (attention without dropout does not)."""
    if torch.Tag.nondeterministic_seeded not in func.tags:
        return func(*args, **kwargs), False
    generator = kwargs.get("generator")
    before = generator_states(generator)
    result = func(*args, **kwargs)
    return result, any(not torch.equal(one, two) for one, two in zip(before, generator_states(generator), strict=True))


def generator_states(generator: torch.Generator | None = None) -> list[Tensor]:
    """States of the default generators, and of ``generator``, if given."""
    states = [torch.get_rng_state()]
    if generator is not None:
        states.append(generator.get_state())
    if torch.cuda.is_initialized():
        states.extend(torch.cuda.get_rng_state_all())
    return states


def is_view(func: Any) -> bool:
    returns = func._schema.returns
    return any(r.alias_info is not None and not r.alias_info.is_write for r in returns)


def written_operands(func: Any, args: Any, kwargs: Any) -> Iterator[Tensor]:
    """The operands that an operator writes to, by its schema."""
    for position, argument in enumerate(func._schema.arguments):
        if argument.alias_info is not None and argument.alias_info.is_write:
            value = args[position] if position < len(args) else kwargs.get(argument.name)
            yield from tensors(value)


def updated_operands(func: Any, args: Any, kwargs: Any) -> Iterator[Tensor]:
    """The operands that an operator writes to.

    `written_operands`, and running statistics, which batch norms update without declaring it.
    """
    yield from written_operands(func, args, kwargs)
    for position, argument in enumerate(func._schema.arguments):
        if argument.name in RUNNING_STATISTICS:
            yield from tensors(args[position] if position < len(args) else kwargs.get(argument.name))


def tensors(values: Any) -> list[Tensor]:
    """All tensors in nested containers, in depth-first order."""
    return [leaf for leaf in tree_leaves(values) if isinstance(leaf, Tensor)]


def is_inexact(tensor: Tensor) -> bool:
    return tensor.is_floating_point() or tensor.is_complex()


def is_rounding(value: Any) -> bool:
    """Whether a value is a strided float tensor with elements, which a compiler may round differently. ZeroTensors and meta tensors have no memory."""
    is_strided = isinstance(value, Tensor) and is_inexact(value) and value.layout is torch.strided
    return is_strided and value.numel() > 0 and not value.is_meta and not value._is_zerotensor()


def sums(name: str) -> bool:
    return name in _MATMULS or name in _REDUCTIONS or name in _CONVOLUTIONS or name.startswith(_ATTENTION)


def terms_of(name: str, args: Any, operands: list[Tensor], results: list[Tensor]) -> int:
    """Estimated number of terms that are summed for each result of this operator; an upper estimate where it is not exact."""
    sizes = [result.numel() for result in results if result.numel()]
    if name in EXACT or not operands or not sizes:
        return 1
    longest = max(operand.numel() for operand in operands)
    if name in _MATMULS:
        return _inner_size(name, operands)
    if name in _CONVOLUTIONS:
        return _window(name, operands)
    if name.startswith(_ATTENTION):  # sums over a row of keys, then over a row of scores
        return max(size for operand in operands for size in (1, *operand.shape[-2:]))
    if name in _BY_INDEX:  # all values may be added to one place
        indices = [operand for operand in operands[1:] if not is_inexact(operand)]
        if len(indices) == 1 and indices[0].dim() > 1 and isinstance(args[1], int):
            return indices[0].shape[args[1]]
        return math.prod(index.numel() for index in indices)
    if name in _ALONG_A_DIMENSION:
        dim = next((arg for arg in args if isinstance(arg, int)), -1)
        return operands[0].shape[dim] if operands[0].dim() else 1
    if name == "avg_pool2d":
        return math.prod(args[1]) if len(args[1]) > 1 else args[1][0] ** 2
    if name in _NORMALIZATIONS_BACKWARD:  # sums over all elements of one mean, and over all uses of one weight
        sizes += [operand.numel() for operand in operands if operand.numel()]
    elif name not in _REDUCTIONS and len(results) > 1:  # a list of tensors, each computed separately
        return 1
    return -(-longest // min(sizes))


def _inner_size(name: str, operands: list[Tensor]) -> int:
    """The length of the dimension that a matrix product sums over."""
    if name == "addr":
        return 1
    factor = operands[1] if name.startswith(("add", "baddbmm")) else operands[0]
    rows = factor.shape[-1] if factor.dim() else 1
    return rows * factor.shape[0] if name == "addbmm" else rows


def _window(name: str, operands: list[Tensor]) -> int:
    """Number of products that are summed for each result of a convolution (transposed or not) or its backward."""
    is_backward = name == "convolution_backward"
    weight = operands[2 if is_backward else 1]
    channels = max(weight.shape[:2])
    image = operands[0].numel() // max(1, operands[0].shape[1]) if is_backward else 1
    return max(channels * math.prod(weight.shape[2:]), image)


def chain_of(name: str, operands: list[Tensor]) -> int:
    """Number of terms that may be summed sequentially, for operators that add them; 1 for others."""
    if not sums(name) or not operands or name in _MULTIPLYING | NORMALIZATIONS or name.startswith(_ATTENTION):
        return 1
    if name in _MATMULS:
        return max(operand.shape[-1] if operand.dim() else 1 for operand in operands)
    if name in _CONVOLUTIONS and name != "convolution_backward":
        weight = max(operands, key=lambda operand: operand.dim())
        return max(1, math.prod(weight.shape[1:]))
    # The weight's gradient is a sum over the whole image.
    return max(operand.numel() for operand in operands)


def narrows(name: str, operands: list[Tensor], output: Tensor) -> bool:
    """Whether an operand has more precision than the result, such as a float32 scalar selected into a float16 result."""
    if any(is_inexact(operand) and _eps(operand) < _eps(output) for operand in operands):
        return True
    source = operands[-1] if name == "copy" and operands else operands[0] if name == "_to_copy" and operands else None
    # an integer of the same or a larger size, such as int32 into float32
    return source is not None and not is_inexact(source) and source.dtype.itemsize >= output.dtype.itemsize


def _eps(tensor: Tensor) -> float:
    return torch.finfo(tensor.dtype).eps


def computes(name: str, kwargs: Any, operands: list[Tensor]) -> bool:
    """Whether an operator that is usually exact, or a jump, rounds with these arguments."""
    if name in ("abs", "sgn"):
        return any(operand.is_complex() for operand in operands)
    return name in _ROUNDING_JUMPS or (name == "round" and bool(kwargs.get("decimals")))


def jumps(name: str, kwargs: Any, operands: list[Tensor]) -> bool:
    if name == "sgn":  # for complex numbers a point on the unit circle, which moves continuously
        return not computes(name, kwargs, operands)
    return name in JUMPING or kwargs.get("rounding_mode") is not None
