"""The fp64 truth: a rerun of the program in double precision, for programs whose meaning does not depend on precision.

All floating operands are float64, whatever the program casts to, unless its explicit casts are kept (`casts`); complex ones are
complex128. Random numbers are those of the eager run. A program whose meaning depends on precision (``nextafter``, bits of floats,
``finfo`` constants, branches on a dtype) has no such truth, and the exception says why.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from typing import Any, cast

import torch
from torch import Tensor
from torch.utils._python_dispatch import _disable_current_modes, is_traceable_wrapper_subclass
from torch.utils._pytree import tree_map

from ..values import bodies
from ..values.operator_mode import OperatorMode
from ..values.rounding import (
    NATIVE_DROPOUT,
    call_and_see_draws,
    is_inexact,
    operator_name,
    tensors,
    written_operands,
)
from ..values.snapshot import clone, kept
from .casts import KeptCasts
from .jumps import SameJumps
from .provenance import Calls, MarkedRun


class InvalidInFp64(Exception):
    """The program means something else in double precision."""


def widen(inputs: Sequence[Any]) -> list[Any]:
    """Copies of the inputs with floating tensors in double precision, storage sharing kept.

    Raises:
        InvalidInFp64: tensors of different types share a storage, which cannot be kept.
    """
    bases: dict[int, tuple[torch.dtype, Tensor]] = {}
    copies = clone(list(inputs))
    return tree_map(lambda leaf: _widen(leaf, bases) if isinstance(leaf, Tensor) else leaf, copies)


def _in_double(tensor: Tensor) -> Tensor:
    """All of a tensor's storage in double precision, in a file if that is large."""
    flat = torch.empty(0, dtype=tensor.dtype, device=tensor.device).set_(tensor.untyped_storage())
    return cast(Tensor, kept(flat.to(_wide_dtype(tensor.dtype))))


def _widen(tensor: Tensor, bases: dict[int, tuple[torch.dtype, Tensor]]) -> Tensor:
    if tensor.layout is not torch.strided or tensor.is_quantized or type(tensor) not in (Tensor, torch.nn.Parameter):
        if not is_inexact(tensor):
            return tensor
        return _converted(tensor)
    storage = tensor.untyped_storage()
    if storage._cdata not in bases:
        bases[storage._cdata] = (tensor.dtype, _in_double(tensor))
    dtype, base = bases[storage._cdata]
    if dtype != tensor.dtype:
        raise InvalidInFp64("inputs of different types share a storage")
    if not is_inexact(tensor):
        return tensor
    with torch.no_grad():
        result = base.as_strided(tensor.size(), tensor.stride(), tensor.storage_offset()).detach()
        torch._C._set_conj(result, tensor.is_conj())
        torch._C._set_neg(result, tensor.is_neg())
    if tensor.requires_grad and not tensor.is_leaf:
        with torch.enable_grad():
            return result.requires_grad_() * 1  # in-place ops on it are allowed, as on its source
    return result.requires_grad_(tensor.requires_grad)


def _converted(tensor: Tensor) -> Tensor:
    """A tensor without a plain storage in double precision; one of a subclass that refuses that as it is.

    Such a tensor holds others, which are widened by the operators that compute with them (`_Double`).
    """
    try:
        return tensor.detach().to(_wide_dtype(tensor.dtype)).requires_grad_(tensor.requires_grad)
    except Exception:  # by code of the subclass
        if is_traceable_wrapper_subclass(tensor):
            return tensor
        raise


def run(
    program: Callable[[list[Any]], Any],
    inputs: Sequence[Any],
    marked: MarkedRun,
    calls: Calls,
    jumps: SameJumps | None = None,
    casts: KeptCasts | None = None,
) -> Any:
    """Run the program on widened inputs.

    Args:
        program: takes the list of inputs, returns the values of interest.
        inputs: in their own precision, before the call.
        marked: the eager run, with the random numbers that it drew.
        calls: the torch calls of the eager run.
        jumps: the jumps to take; None: as double precision decides.
        casts: the explicit casts to keep; None: none is.

    Raises:
        InvalidInFp64: there is no such truth; the message says why.
    """
    if marked.invalid_in_fp64:
        raise InvalidInFp64(marked.invalid_in_fp64)
    default = torch.get_default_dtype()
    here = Calls()
    wide = widen(inputs)
    for tensor in tensors(wide):
        if tensor.requires_grad and tensor.is_leaf:
            tensor.register_hook(_in_file)
    try:
        torch.set_default_dtype(torch.float64)
        with _Double(marked.drawn, jumps), casts or nullcontext(), here:
            result = program(wide)
    except InvalidInFp64:
        raise
    except Exception as error:
        raise InvalidInFp64(f"cannot run in float64: {type(error).__name__}: {error}"[:200]) from error
    finally:
        torch.set_default_dtype(default)
    if not here.agrees_with(calls):
        raise InvalidInFp64("the program branches on a dtype or uses constants of one")
    return result


def _in_file(gradient: Tensor) -> Tensor | None:
    """A gradient in a file (`pages`) as soon as it is computed, if it is large."""
    with torch._C.DisableTorchFunction(), _disable_current_modes():
        return kept(gradient)


class _Double(OperatorMode):
    """Keeps every operation of the rerun in double precision."""

    def __init__(self, drawn: list[Tensor], jumps: SameJumps | None) -> None:
        super().__init__()
        self._drawn, self._jumps = iter(drawn), jumps

    def called(self, func: Any, args: Any, kwargs: Any) -> Any:
        if not isinstance(func, torch._ops.OpOverload):
            return bodies.call(self, func, *tree_map(_double, (args, kwargs)))
        if any(map(_is_narrow, written_operands(func, args, kwargs))):
            raise InvalidInFp64("changes a tensor in place that is not an input")
        args, kwargs = tree_map(_double, (args, kwargs))
        if operator_name(func) in ("_softmax", "_log_softmax"):
            args = (*args[:2], False)  # half_to_float, which only half precision allows
        result, drew = call_and_see_draws(func, args, kwargs)
        if drew and operator_name(func) == NATIVE_DROPOUT:
            self._drop(*args[:2], *result)
        elif drew:
            for output in tensors(result):
                output.copy_(next(self._drawn))
        if self._jumps is not None:
            self._jumps.take(func, args, kwargs, result)
        return result

    def _drop(self, values: Tensor, share: float, output: Tensor, mask: Tensor) -> None:
        """Let dropout keep the elements that the eager run kept: it draws a mask, and computes with it."""
        next(self._drawn)  # what it computed
        mask.copy_(next(self._drawn))
        output.copy_(values * mask / (1 - share) if share < 1 else torch.zeros_like(values))


def _double(leaf: Any) -> Any:
    if isinstance(leaf, torch.dtype):
        return _wide_dtype(leaf)
    if isinstance(leaf, Tensor) and _is_narrow(leaf):
        return leaf.to(_wide_dtype(leaf.dtype))
    return leaf


def _is_narrow(tensor: Tensor) -> bool:
    return is_inexact(tensor) and tensor.dtype != _wide_dtype(tensor.dtype)


def _wide_dtype(dtype: torch.dtype) -> torch.dtype:
    if dtype.is_complex:
        return torch.complex128
    return torch.float64 if dtype.is_floating_point else dtype
