"""Makes eager compute some functions of torch as Dynamo writes them into its graphs, so that both are equal to the bit.

Dynamo decomposes a few fused functions while it traces; their results differ by roundings. A function is replaced only
if both ways agree except for roundings: a decomposition that computes something else stays visible. Optimizers with a
capturable variant use it, as under Dynamo.
"""

from __future__ import annotations

import contextlib
import functools
import weakref
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

ROUNDINGS = 16.0
"""Units in the last place, of the result or of what it is added to, by which an element may differ between the two
ways.
"""


def _addcdiv(base: Tensor, one: Tensor, two: Tensor, *, value: Any) -> Tensor:
    return torch.add(base, torch.mul(torch.div(one, two), value))


def _fma(*terms: Any) -> Tensor:
    from torch._inductor import inductor_prims

    result: Tensor = inductor_prims.fma(*terms)
    return result


def _addcmul_(base: Tensor, one: Tensor, two: Tensor, *, value: Any) -> Tensor:
    return base.copy_(_fma(torch.mul(one, two), value, base))


def _addcdiv_(base: Tensor, one: Tensor, two: Tensor, *, value: Any) -> Tensor:
    return base.copy_(_fma(torch.div(one, two), value, base))


def _foreach_lerp_(selves: Any, ends: Any, weight: Any) -> Any:
    from torch._dynamo import polyfills

    return polyfills.foreach_lerp_inplace(selves, ends, weight)


WAYS: Mapping[Any, Callable[..., Any]] = {
    torch.addcdiv: _addcdiv,
    Tensor.addcdiv: _addcdiv,
    Tensor.addcmul_: _addcmul_,
    Tensor.addcdiv_: _addcdiv_,
    torch._foreach_lerp_: _foreach_lerp_,
}


class Optimizers:
    """All optimizers created from now on."""

    def __init__(self) -> None:
        self._known: weakref.WeakSet[Any] = weakref.WeakSet()
        original = torch.optim.Optimizer.__init__

        @functools.wraps(original)
        def init(this: Any, *args: Any, **kwargs: Any) -> None:
            original(this, *args, **kwargs)
            self._known.add(this)

        torch.optim.Optimizer.__init__ = init  # type: ignore[method-assign, assignment]

    @contextlib.contextmanager
    def as_dynamo(self) -> Iterator[None]:
        """The context of an eager call that computes as Dynamo would."""
        groups = [g for known in list(self._known) for g in known.param_groups if g.get("capturable") is False]
        try:
            for group in groups:
                group["capturable"] = True
            with _AsDynamo():
                yield
        finally:
            for group in groups:
                group["capturable"] = False


class _AsDynamo(TorchFunctionMode):
    """Replaces calls of the keys of `WAYS`, with the arguments with which Dynamo decomposes them."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func not in WAYS or not _is_decomposed(func, args, kwargs) or not _agrees(func, args, kwargs):
            return func(*args, **kwargs)
        return WAYS[func](*args, **kwargs)


def _is_decomposed(func: Any, args: Any, kwargs: Any) -> bool:
    if len(args) != 3:
        return False
    if func is torch._foreach_lerp_:
        return not kwargs and not isinstance(args[2], list | tuple)
    return list(kwargs) == ["value"]


@torch.no_grad()
def _agrees(func: Any, args: Any, kwargs: Any) -> bool:
    """Whether the decomposition computes the same except for roundings, tried on copies."""
    ones, twos = (_tensors(way(_copied(args[0]), *args[1:], **kwargs)) for way in (func, WAYS[func]))
    return all(map(_are_close, ones, twos, _tensors(args[0])))


def _are_close(one: Tensor, two: Tensor, base: Tensor) -> bool:
    if one.dtype != two.dtype or one.shape != two.shape:
        return False
    if not one.dtype.is_floating_point and not one.dtype.is_complex:
        return torch.equal(one, two)
    size = one.abs() + base.abs()
    apart = (one - two).abs()
    is_close = apart <= ROUNDINGS * torch.finfo(one.dtype).eps * size
    return bool((is_close | (one == two) | (one.isnan() & two.isnan())).all())


def _copied(value: Any) -> Any:
    return [part.clone() for part in value] if isinstance(value, list | tuple) else value.clone()


def _tensors(value: Any) -> list[Tensor]:
    return list(value) if isinstance(value, list | tuple) else [value]
