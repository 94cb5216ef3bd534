"""What an eager run is made of: which of its results may legally differ when compiled, and how.

Every result carries marks, and operators pass them on:

* none: exact. The values were given, or only moved, selected or compared. Every correct implementation gives the same bits.
* ``ROUNDED``: float arithmetic took part. Another order of summation, a fused multiply-add or a kept intermediate precision
  changes the last bits.
* ``DISCRETE``: a rounded value went through an operator that jumps (round, floor, comparison, argmax, sort indices, a cast to
  integers, ...). A last bit upstream becomes a whole step here.
* ``RANDOM``: drawn from a generator.

An operator that jumps but was fed exact values is exact: ``v // w`` on given inputs has one right answer.

Uninitialised memory (``torch.empty``) is filled with a value of ours: whoever reads it differs from a plain eager run and is
found to be nondeterministic, however often the allocator hands out the same bytes.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from .elements import plain, wide


class Mark(enum.Flag):
    """What has happened to a value on its way."""

    EXACT = 0
    ROUNDED = enum.auto()
    DISCRETE = enum.auto()
    RANDOM = enum.auto()


# Operators that hand on given values: they move, select or compare, and never round. Views are recognised by their schema.
_EXACT = frozenset(
    [
        "abs",
        "amax",
        "amin",
        "as_strided_scatter",
        "bitwise_and",
        "bitwise_not",
        "bitwise_or",
        "bitwise_xor",
        "cat",
        "clamp",
        "clamp_max",
        "clamp_min",
        "clone",
        "complex",
        "constant_pad_nd",
        "copy",
        "diag_embed",
        "diagonal_scatter",
        "embedding",
        "empty",
        "empty_like",
        "empty_permuted",
        "empty_strided",
        "eye",
        "fill",
        "flip",
        "fmax",
        "fmin",
        "full",
        "full_like",
        "gather",
        "hardtanh",
        "index",
        "index_copy",
        "index_fill",
        "index_put",
        "index_select",
        "kthvalue",
        "lift",
        "lift_fresh",
        "lift_fresh_copy",
        "masked_fill",
        "masked_scatter",
        "masked_select",
        "max",
        "max_pool1d",
        "max_pool2d_with_indices",
        "max_pool3d_with_indices",
        "maximum",
        "median",
        "min",
        "minimum",
        "mode",
        "nan_to_num",
        "nanmedian",
        "neg",
        "new_empty",
        "new_empty_strided",
        "new_full",
        "new_ones",
        "new_zeros",
        "nonzero",
        "ones",
        "ones_like",
        "pixel_shuffle",
        "pixel_unshuffle",
        "put",
        "reflection_pad1d",
        "reflection_pad2d",
        "reflection_pad3d",
        "relu",
        "repeat",
        "repeat_interleave",
        "replication_pad1d",
        "replication_pad2d",
        "replication_pad3d",
        "roll",
        "rot90",
        "scalar_tensor",
        "scatter",
        "select_scatter",
        "slice_scatter",
        "sort",
        "stack",
        "take",
        "topk",
        "trace_copy",
        "tril",
        "triu",
        "unfold_copy",
        "unique_consecutive",
        "upsample_nearest1d",
        "upsample_nearest2d",
        "upsample_nearest3d",
        "where",
        "zero",
        "zeros",
        "zeros_like",
        "_to_copy",
        "_unique2",
        "_local_scalar_dense",
        "_unsafe_index",
        "_unsafe_view",
    ]
)

# Operators with a floating result that jumps where its operand moves by a last bit.
_JUMPING = frozenset(
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

_UNINITIALISED = frozenset(("empty", "empty_like", "empty_permuted", "empty_strided", "new_empty", "new_empty_strided"))

# Operators that add up many products or terms, with the number of terms of each result.
_MATMULS = frozenset(
    ["mm", "bmm", "addmm", "baddbmm", "addbmm", "mv", "addmv", "dot", "vdot", "linear", "matmul", "addr"]
)
_REDUCTIONS = frozenset(
    [
        "sum",
        "mean",
        "var",
        "std",
        "var_mean",
        "std_mean",
        "norm",
        "linalg_vector_norm",
        "prod",
        "logsumexp",
        "nansum",
        "nanmean",
        "native_layer_norm",
        "native_group_norm",
        "native_batch_norm",
        "_native_batch_norm_legit",
        "_native_batch_norm_legit_functional",
        "cudnn_batch_norm",
        "native_batch_norm_backward",
        "_softmax",
        "_log_softmax",
        "_softmax_backward_data",
        "_log_softmax_backward_data",
        "cumsum",
        "cumprod",
        "logcumsumexp",
        "trace",
        "native_layer_norm_backward",
        "native_group_norm_backward",
        "_fused_rms_norm",
        "avg_pool2d",
        "_adaptive_avg_pool2d",
        "nll_loss_forward",
        "mse_loss",
        "embedding_dense_backward",
        "index_add",
        "scatter_add",
        "scatter_reduce",
    ]
)
_CONVOLUTIONS = frozenset(["convolution", "convolution_backward", "mkldnn_convolution", "cudnn_convolution"])
_ATTENTION = "_scaled_dot_product"

# Random operators whose numbers can be drawn once and fed to a run in another precision.
_DRAWN_ONCE = frozenset(
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

_FILL, _SMALL_FILL = 12345, 77


class Survey(TorchDispatchMode):
    """Watches an eager run. Read ``marks`` of its results afterwards, while they are alive."""

    supports_higher_order_operators = True

    def __init__(self) -> None:
        super().__init__()
        self.random = False
        self.terms = 1
        self.invalid_in_fp64 = ""
        self.drawn: list[Tensor] = []
        self._marks: dict[int, Mark] = {}

    def marks(self, tensor: Tensor) -> Mark:
        """The marks of a tensor that this run was given or has made."""
        return self._marks.get(_storage(tensor), Mark.EXACT)

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        with torch._C.DisableTorchFunction():  # what happens here is no call of the program
            return self._watch(func, args, kwargs or {})

    def _watch(self, func: Any, args: Any, kwargs: Any) -> Any:
        operands = tensors((args, kwargs))
        before = {id(operand): self.marks(operand) for operand in operands}
        union = _union(before.values())
        if not isinstance(func, torch._ops.OpOverload):  # a higher-order operator, whose inner operators are not seen
            self.invalid_in_fp64 = self.invalid_in_fp64 or f"{func} hides its operators"
            result = func(*args, **kwargs)
            for output in tensors(result):
                self._marks[_storage(output)] = union | (Mark.ROUNDED if is_inexact(output) else Mark.DISCRETE)
            return result
        result, drew = call_and_see_draws(func, args, kwargs)
        name = operator_name(func)
        self._notice(func, name, operands, drew)
        if is_view(func):
            return result
        if name in _UNINITIALISED:
            _overwrite(result)
        written = list(written_operands(func, args, kwargs))
        for output in written or tensors(result):
            mark = union | Mark.RANDOM if drew else _mark_of(name, args, kwargs, output, union)
            # A fresh storage may have the address of one that is gone: its marks are replaced. A write in place may be partial.
            storage = _storage(output)
            self._marks[storage] = mark | self._marks.get(storage, Mark.EXACT) if written else mark
        if drew:
            self.drawn.extend(output.detach().clone() for output in tensors(result))
        return result

    def _notice(self, func: Any, name: str, operands: list[Tensor], drew: bool) -> None:
        self.random = self.random or drew
        self.terms = max(self.terms, _terms(name, operands))
        if not self.invalid_in_fp64:
            self.invalid_in_fp64 = _why_invalid_in_fp64(func, name, operands, drew)


def _mark_of(name: str, args: Any, kwargs: Any, output: Tensor, union: Mark) -> Mark:
    stepped = Mark.DISCRETE if Mark.ROUNDED in union else Mark.EXACT
    if not is_inexact(output):
        return (union & ~Mark.ROUNDED) | stepped
    if _jumps(name, kwargs):
        return union | stepped
    if name not in _EXACT or _narrows(name, args, output) or _computes(name, args, kwargs):
        return union | Mark.ROUNDED
    return union


def _why_invalid_in_fp64(func: Any, name: str, operands: list[Tensor], drew: bool) -> str:
    """Why a program with this operator means something else in double precision; empty if it does not."""
    if name in ("nextafter", "frexp"):
        return f"{name} depends on the precision of its operand"
    if name == "view" and func._overloadname == "dtype" and any(map(is_inexact, operands)):
        return "view(dtype) reads the bits of floating values"
    if drew and name not in _DRAWN_ONCE:
        return f"{name} mixes drawn numbers with computed values"
    return ""


class Calls(TorchFunctionMode):
    """The torch calls of a run with their plain numbers: a program that branches on a dtype makes other calls in another one.

    Numbers belong to it, since ``torch.finfo(x.dtype).min`` shows nowhere else. Casts do not: they vanish when everything has
    one dtype.
    """

    _CASTS = frozenset(
        [
            "to",
            "type",
            "type_as",
            "float",
            "half",
            "bfloat16",
            "double",
            "clone",
            "contiguous",
            "_to_copy",
            "detach",
            "alias",
        ]
    )

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[tuple[str, tuple[float, ...]]] = []

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        name = getattr(func, "__name__", str(func)).split(".")[0]
        if name not in self._CASTS and not name.startswith("__"):
            numbers = (leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, float))
            self.seen.append((name, tuple(numbers)))
        return func(*args, **kwargs)

    def agrees_with(self, other: Calls) -> bool:
        """Whether both runs made the same calls, with the same numbers up to rounding."""
        if [name for name, _ in self.seen] != [name for name, _ in other.seen]:
            return False
        pairs = zip(self.seen, other.seen, strict=True)
        return all(len(one) == len(two) and all(map(_near, one, two)) for (_, one), (_, two) in pairs)


class Perturbation(TorchDispatchMode):
    """Repeats an eager run with every rounding drawn anew (Monte Carlo arithmetic).

    The result of each rounding operator is moved by up to one unit in the last place, and the terms of each sum by as much of
    the precision they are summed in. How far the outputs spread is how far a correct compiler may legally move them.
    """

    supports_higher_order_operators = True

    def __init__(self, seed: int) -> None:
        super().__init__()
        self._seed = seed
        self._generators: dict[torch.device, torch.Generator] = {}

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if not isinstance(func, torch._ops.OpOverload) or is_view(func):
            return func(*args, **kwargs)
        name = operator_name(func)
        if _sums(name) and not list(written_operands(func, args, kwargs)):
            args = tuple(self._moved_term(arg) if _is_rounding(arg) else arg for arg in args)
        result, drew = call_and_see_draws(func, args, kwargs)
        if drew or name in _EXACT or _jumps(name, kwargs):
            return result
        for output in tensors(result):
            if _is_rounding(output):
                output.copy_(self._moved(output, torch.finfo(output.dtype).eps))
        return result

    def _moved_term(self, term: Tensor) -> Tensor:
        eps = torch.finfo(term.dtype).eps
        # Sums of half precision are kept in single precision, too fine a step for the operand to show.
        return self._moved(term, eps) if eps <= torch.finfo(torch.float32).eps else term

    def _moved(self, tensor: Tensor, eps: float) -> Tensor:
        values = plain(tensor)
        values = wide(values) if values.dtype.itemsize > 4 else values.to(torch.float32)
        noise = torch.empty(values.shape, dtype=values.real.dtype, device=values.device)
        noise.uniform_(-eps, eps, generator=self._generator(values.device))
        return torch.addcmul(values, values, noise).to(tensor.dtype)

    def _generator(self, device: torch.device) -> torch.Generator:
        if device not in self._generators:
            self._generators[device] = torch.Generator(device).manual_seed(self._seed)
        return self._generators[device]


# --- facts about operators and tensors ------------------------------------------------------------------------------------------


def operator_name(func: Any) -> str:
    """``add`` for ``aten.add_.Tensor`` and ``aten._foreach_add``: in place and foreach variants compute the same."""
    name = func._schema.name.split("::")[-1].removeprefix("_foreach_")
    return name[:-1] if name.endswith("_") and not name.endswith("__") else name


def call_and_see_draws(func: Any, args: Any, kwargs: Any) -> tuple[Any, bool]:
    """Call an operator and say whether it took numbers from a generator; attention without dropout does not."""
    if torch.Tag.nondeterministic_seeded not in func.tags:
        return func(*args, **kwargs), False
    generator = kwargs.get("generator")
    before = generator_states(generator)
    result = func(*args, **kwargs)
    return result, any(not torch.equal(one, two) for one, two in zip(before, generator_states(generator), strict=True))


def generator_states(generator: torch.Generator | None = None) -> list[Tensor]:
    """The states of the default generators, and of one more."""
    states = [torch.get_rng_state()]
    if generator is not None:
        states.append(generator.get_state())
    if torch.cuda.is_available() and torch.cuda.is_initialized():
        states.extend(torch.cuda.get_rng_state_all())
    return states


def is_view(func: Any) -> bool:
    returns = func._schema.returns
    return any(r.alias_info is not None and not r.alias_info.is_write for r in returns)


def written_operands(func: Any, args: Any, kwargs: Any) -> Iterator[Tensor]:
    """The tensors that an operator writes to."""
    for position, argument in enumerate(func._schema.arguments):
        if argument.alias_info is not None and argument.alias_info.is_write:
            value = args[position] if position < len(args) else kwargs.get(argument.name)
            yield from tensors(value)


def tensors(values: Any) -> list[Tensor]:
    return [leaf for leaf in tree_leaves(values) if isinstance(leaf, Tensor)]


def is_inexact(tensor: Tensor) -> bool:
    return tensor.is_floating_point() or tensor.is_complex()


def _is_rounding(value: Any) -> bool:
    return isinstance(value, Tensor) and is_inexact(value) and value.layout is torch.strided and value.numel() > 0


def _sums(name: str) -> bool:
    return name in _MATMULS or name in _REDUCTIONS or name in _CONVOLUTIONS or name.startswith(_ATTENTION)


def _terms(name: str, operands: list[Tensor]) -> int:
    """About how many terms each result of this operator is the sum of."""
    if not _sums(name) or not operands:
        return 1
    if name in _MATMULS:
        return max(operand.shape[-1] if operand.dim() else 1 for operand in operands)
    if name in _CONVOLUTIONS:
        weight = max(operands, key=lambda operand: operand.dim())
        return max(1, math.prod(weight.shape[1:]))
    return max(operand.numel() for operand in operands)


def _narrows(name: str, args: Any, output: Tensor) -> bool:
    if name not in ("_to_copy", "copy") or not args:
        return False
    source = args[1] if name == "copy" and len(args) > 1 else args[0]
    if not isinstance(source, Tensor):
        return False
    if not is_inexact(source):
        return source.dtype.itemsize >= output.dtype.itemsize  # int32 does not fit into float32
    return torch.finfo(output.dtype).eps > torch.finfo(source.dtype).eps


def _computes(name: str, args: Any, kwargs: Any) -> bool:
    """Whether an operator that is mostly exact rounds after all with these arguments."""
    if name == "abs":
        return args[0].is_complex()
    return name == "index_put" and (bool(kwargs.get("accumulate")) or (len(args) > 3 and bool(args[3])))


def _jumps(name: str, kwargs: Any) -> bool:
    return name in _JUMPING or kwargs.get("rounding_mode") is not None


def _overwrite(tensor: Tensor) -> None:
    with torch.no_grad():
        if tensor.dtype is torch.bool:
            tensor.fill_(True)
        elif tensor.layout is torch.strided:
            tensor.fill_(_FILL if tensor.dtype.itemsize > 1 else _SMALL_FILL)


def _union(marks: Any) -> Mark:
    union = Mark.EXACT
    for mark in marks:
        union |= mark
    return union


def _near(one: float, two: float) -> bool:
    return one == two or (one != one and two != two) or math.isclose(one, two, rel_tol=1e-2)


def _storage(tensor: Tensor) -> int:
    try:
        return tensor.untyped_storage()._cdata
    except (RuntimeError, NotImplementedError):
        return -id(tensor)
