"""Records the loss of a training script at each backward, with gradient and parameter norms at the next optimizer step."""

from __future__ import annotations

import functools
import math
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import Tensor
from torch.optim import optimizer

from ..places import caller

MOST_STEPS = 5000
"""Most recorded backwards."""


class Losses:
    """Records the backwards of this process from now on.

    Args:
        inside: creates the context in which each backward runs.
        on_step: called before each backward of a loss, with the seconds since the first one began and the number
            recorded.
    """

    def __init__(
        self,
        inside: Callable[[], AbstractContextManager[object]] = nullcontext,
        on_step: Callable[[float, int], None] = lambda seconds, steps: None,
    ) -> None:
        self._inside, self._on_step, self._begun = inside, on_step, math.nan
        self._lines: dict[tuple[object, ...], int] = {}
        self._steps: list[list[float | int | None]] = []
        """For each backward its line, the loss, and the norms of gradients and parameters at the optimizer step after
        it, if any.
        """
        original = torch.autograd.backward

        @functools.wraps(original)
        def backward(tensors: Any, *args: Any, **kwargs: Any) -> None:
            self._note(tensors)
            with self._inside():
                original(tensors, *args, **kwargs)

        # A graph break as without us: Dynamo traces no backward.
        torch.autograd.backward = torch._dynamo.disable(backward, recursive=False)
        optimizer.register_optimizer_step_pre_hook(self._before_step)
        optimizer.register_optimizer_step_post_hook(self._after_step)

    def told(self) -> dict[str, Any]:
        """The record of all backwards.

        ``lines``: those that call a backward. ``steps``: for each backward the index of its line, the loss, the norms
        of gradients and of parameters; None for norms without a following optimizer step.
        """
        return {"lines": [list(line) for line in self._lines], "steps": self._steps}

    def _note(self, tensors: Any) -> None:
        losses = [tensors] if isinstance(tensors, Tensor) else list(tensors)
        if not all(map(_is_loss, losses)):
            return
        now = time.monotonic()
        self._begun = now if math.isnan(self._begun) else self._begun
        self._on_step(now - self._begun, len(self._steps))
        if len(self._steps) >= MOST_STEPS:
            return
        line = self._lines.setdefault(tuple(caller() or ("", 0, "")), len(self._lines))
        self._steps.append([line, sum(float(loss.detach()) for loss in losses), None, None])

    # A compiled optimizer takes its steps within a graph, where nothing must be recorded.

    def _before_step(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        if not torch.compiler.is_compiling() and self._steps:
            self._steps[-1][2] = _norm(parameter.grad for parameter in _parameters(optimizer))

    def _after_step(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        if not torch.compiler.is_compiling() and self._steps:
            self._steps[-1][3] = _norm(_parameters(optimizer))


def _is_loss(value: Any) -> bool:
    return isinstance(value, Tensor) and value.numel() == 1 and value.is_floating_point()


def _parameters(optimizer: Any) -> Iterator[Tensor]:
    return (parameter for group in optimizer.param_groups for parameter in group["params"])


@torch.no_grad()
def _norm(tensors: Iterable[Tensor | None]) -> float | None:
    """The Euclidean norm of all tensors together, in double precision; None without tensors."""
    try:
        squares = (
            torch.linalg.vector_norm(one.detach(), dtype=torch.float64) ** 2 for one in tensors if one is not None
        )
        return math.sqrt(sum(map(float, squares)))
    except (RuntimeError, ValueError):  # a sparse or distributed tensor, or an overflow
        return None
