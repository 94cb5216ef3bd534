"""The loss of a script that trains: what it calls the backward of, with the norms of gradients and parameters at the step of the optimizer behind it."""

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
"""Backwards that are noted."""


class Losses:
    """Notes the backwards of this process from now on.

    Args:
        inside: the surroundings in which each backward runs.
        on_step: called before each backward of a loss, with the seconds since the first one began and how many are noted.
    """

    def __init__(
        self,
        inside: Callable[[], AbstractContextManager[object]] = nullcontext,
        on_step: Callable[[float, int], None] = lambda seconds, steps: None,
    ) -> None:
        self._inside, self._on_step, self._begun = inside, on_step, math.nan
        self._lines: dict[tuple[object, ...], int] = {}
        self._steps: list[list[float | int | None]] = []
        """For each backward its line, the loss, and behind it the norms of gradients and parameters where an optimizer took a step."""
        original = torch.autograd.backward

        @functools.wraps(original)
        def backward(tensors: Any, *args: Any, **kwargs: Any) -> None:
            self._note(tensors)
            with self._inside():
                original(tensors, *args, **kwargs)

        # A break as without us: Dynamo traces no backward.
        torch.autograd.backward = torch._dynamo.disable(backward, recursive=False)
        optimizer.register_optimizer_step_pre_hook(self._before_step)
        optimizer.register_optimizer_step_post_hook(self._after_step)

    def told(self) -> dict[str, Any]:
        """``lines``: those that call a backward. ``steps``: for each backward the number of its line, the loss, the norms of gradients and
        of parameters; None for a norm of a backward that no step of an optimizer has followed."""
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

    # An optimizer that is compiled takes its steps within a graph, where nothing is to be noted.

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
    """The Euclidean norm of all tensors together, in double precision; None for those that have none."""
    try:
        squares = (
            torch.linalg.vector_norm(one.detach(), dtype=torch.float64) ** 2 for one in tensors if one is not None
        )
        return math.sqrt(sum(map(float, squares)))
    except (RuntimeError, ValueError):  # a sparse or distributed one, or an overflow
        return None
