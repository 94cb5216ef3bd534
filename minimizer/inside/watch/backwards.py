"""Backward passes of the script: which of them belong to a compared call, and what they hand to it.

A compared call is kept until the script has run a backward through its outputs; then that backward is replayed on both sides. It
is kept no longer than one can still come: hooks on the outputs hold what collects their cotangents, and nothing else does, so
that it goes with the last of the outputs' autograd graph.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

import torch

from ..referee.call import Call, Function, GradientCall, Side
from ..values.rounding import tensors
from ..values.snapshot import has_plain_storage
from .captured import CapturedGraph

MOST_BACKWARD = 256
"""Calls that are kept because their backward may still come: a step of as many graphs is checked, a long evaluation costs no more."""


class BackwardCall:
    """A call whose outputs may take part in a backward pass of the script, kept until it can be replayed."""

    def __init__(self, graph: CapturedGraph, number: int, call: Call, compiled: Function, actual: Any) -> None:
        self.graph, self.number, self.key = graph, number, graph.key
        self._call, self._compiled = call, compiled
        self._cotangents: dict[int, torch.Tensor] = {}
        self.ran_unseen = False
        """Whether compiled autograd has run its backward, without our hooks; cotangents of one are then as good as any."""
        outputs = [output for output in tensors(actual) if output.requires_grad]
        self._outputs = [(_outline(output), output.device) for output in outputs]
        self.setup = graph.setup_lines() if outputs else ([], [])
        """The configs that it ran under, where a backward may come."""
        self._keepers: list[weakref.ref[Any]] = []
        for index, output in enumerate(outputs):
            keeper = self._keeper(index)
            self._keepers.append(weakref.ref(keeper))
            output.register_hook(keeper)

    @property
    def can_run(self) -> bool:
        """Whether a backward may still come."""
        return any(keeper() is not None for keeper in self._keepers)

    @property
    def ran(self) -> bool:
        """Whether the script ran a backward through it."""
        return bool(self._cotangents) or self.ran_unseen

    def replay(self) -> GradientCall:
        """The call with this backward. Its cotangents are what the script's backward gave, zeros where it gave nothing."""
        missing = torch.zeros_like if self._cotangents else torch.ones_like
        return self._call.behind(
            [
                self._cotangents[index] if index in self._cotangents else missing(outline, device=device)
                for index, (outline, device) in enumerate(self._outputs)
            ]
        )

    def compiled(self, replay: GradientCall) -> Side:
        """The gradients of compiled code in that replay."""
        return self.graph.lifted.run(replay, self._compiled)

    def _keeper(self, index: int) -> Callable[[torch.Tensor | None], None]:
        cotangents = self._cotangents

        def keep(cotangent: torch.Tensor | None) -> None:
            # Compiled autograd traces hooks: this one must leave nothing in its graphs.
            if not torch.compiler.is_compiling() and cotangent is not None:
                cotangents[index] = cotangent.detach().clone()

        return keep


def _outline(output: torch.Tensor) -> torch.Tensor:
    """A tensor of the same shape and type that holds none of the memory, which CUDA graphs use again once nobody does."""
    return torch.empty_like(output, device="meta") if has_plain_storage(output) else output.detach()


class Backwards:
    """The compared calls whose backward may still come."""

    def __init__(self) -> None:
        self._calls: list[BackwardCall] = []
        self._with: set[int | None] = set()
        self._without: set[int | None] = set()
        """Keys of calls that had a backward, and of those that were gone without one."""

    def keep(self, call: BackwardCall) -> None:
        """Remember a call, if it can have a backward."""
        if call.can_run:
            self._calls.append(call)
            for early in self._calls[:-MOST_BACKWARD]:
                early.graph.backwards_given_up += 1
            del self._calls[:-MOST_BACKWARD]

    def take(self) -> list[BackwardCall]:
        """Those whose backward the script ran since the last look. One whose outputs are gone without one is dropped."""
        pending, self._calls = self._calls, []
        ran = []
        for call in pending:
            if call.ran:
                self._with.add(call.key)
                ran.append(call)
            elif call.can_run:
                self._calls.append(call)
            else:
                self._without.add(call.key)
        return ran

    def run_unseen(self) -> None:
        """Compiled autograd has run a backward: that of the calls that wait for one, as far as can be told."""
        for call in self._calls:
            call.ran_unseen = True

    @property
    def is_awaited(self) -> bool:
        """Whether a call was compared whose backward may be about to come, the first of its key."""
        known = self._with | self._without
        return any(call.can_run and not call.ran and call.key not in known for call in self._calls)
