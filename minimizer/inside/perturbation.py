"""What a correct compiler may change: an eager run with every rounding drawn anew."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from .elements import plain, wide
from .rounding import (
    EXACT,
    call_and_see_draws,
    is_rounding,
    is_view,
    jumps,
    operator_name,
    sums,
    tensors,
    written_operands,
)


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
        if sums(name) and not list(written_operands(func, args, kwargs)):
            args = tuple(self._moved_term(arg) if is_rounding(arg) else arg for arg in args)
        result, drew = call_and_see_draws(func, args, kwargs)
        if drew or name in EXACT or jumps(name, kwargs):
            return result
        for output in tensors(result):
            if is_rounding(output):
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
