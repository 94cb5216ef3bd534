"""Matches the script's backward passes to compared calls, and collects the cotangents that they pass in.

A compared call is kept until the script has run a backward through its outputs; then that backward is replayed on both
sides. It is dropped once no backward can follow: only the hooks on the outputs own the objects that collect cotangents,
so these die with the outputs' autograd graph.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch.autograd.graph import GradientEdge

from ..graph import state
from ..referee.call import Call, GradientCall, Side
from ..referee.comparison import Run
from ..values.communication import Replay
from ..values.rounding import tensors
from ..values.snapshot import GlobalState, global_state, has_plain_storage
from .captured import CapturedGraph
from .own_gradients import OwnGradients, differ

MOST_BACKWARD = 256
"""Most calls kept while waiting for their backward: enough for a training step of as many graphs, and a memory bound
for a long evaluation.
"""


class BackwardCall:
    """A call whose outputs may take part in a backward pass of the script, kept until it can be replayed."""

    def __init__(
        self,
        graph: CapturedGraph,
        number: int,
        call: Call,
        compiled: Run,
        actual: Any,
        edges: Sequence[GradientEdge] = (),
        inputs: Sequence[Any] = (),
        heard: Replay | None = None,
    ) -> None:
        """``compiled``: runs the call's compiled code again. ``edges``: see `own_gradients.edges_of`. ``inputs``: those of the call, as it has left them.
        ``heard``: what its collectives returned, with which ``compiled`` runs; None: it has none.
        """
        self.graph, self.number, self.key, self.heard = graph, number, graph.key, heard
        self._call, self._compiled = call, compiled
        self._cotangents: dict[int, torch.Tensor] = {}
        self.ran_unseen = False
        """Whether compiled autograd ran its backward without our hooks; the replay then takes ones as cotangents."""
        self._switches: GlobalState | None = None
        """The switches of the script's backward, taken when its first cotangent arrived. None until then."""
        outputs = [output for output in tensors(actual) if output.requires_grad]
        self._outputs = [(_outline(output), output.device) for output in outputs]
        self._setup = graph.setup_lines() if outputs else ([], [])
        """`state.setup_lines` at the time of the call; empty if no backward can follow."""
        self._keepers: list[weakref.ref[Any]] = []
        for index, output in enumerate(outputs):
            keeper = self._keeper(index)
            self._keepers.append(weakref.ref(keeper))
            output.register_hook(keeper)
        self._own = OwnGradients(outputs, edges, self._cotangents, inputs, call.inputs)

    @property
    def can_run(self) -> bool:
        """Whether a backward may still follow."""
        return any(keeper() is not None for keeper in self._keepers)

    @property
    def ran(self) -> bool:
        """Whether the script ran a backward through this call."""
        return bool(self._cotangents) or self.ran_unseen

    def replay(self) -> GradientCall:
        """The call with its backward: cotangents from the script's backward, zeros for outputs without one (ones if it ran unseen)."""
        missing = torch.zeros_like if self._cotangents else torch.ones_like
        return replace(self._call, backward=self._switches).behind(
            [
                self._cotangents[index] if index in self._cotangents else missing(outline, device=device)
                for index, (outline, device) in enumerate(self._outputs)
            ]
        )

    def surroundings(self) -> tuple[list[str], list[str], list[str]]:
        """`state.setup_lines` for the backward, and the contexts around the call itself (`state.contexts`)."""
        lines, opaque = self._setup
        call, behind = self._call.switches.autocast, (self._switches or self._call.switches).autocast
        if call == behind:
            return lines, opaque, []
        other = state.autocast_lines(call)
        lines = [line for line in lines if line not in other]
        return [*lines, *state.autocast_lines(behind)], opaque, state.contexts(call, behind)

    def runs_unseen(self) -> None:
        """Record that compiled autograd runs its backward now."""
        self.ran_unseen = True
        self._switches = self._switches or global_state()

    def compiled(self, replay: Call) -> Side:
        """Run the replay compiled; its gradients."""
        return self._own.in_place_of(self._compiled(replay))

    def own(self, replayed: Side) -> Side | None:
        """The gradients of the script's own backward, if known and different from the replay of the same compiled code."""
        known = self._own.known
        return Side(None, (), known) if known is not None and differ(known, replayed.gradients) else None

    @property
    def is_in_held(self) -> bool:
        """Whether the script's backward returned a gradient in the memory of a gradient that a leaf held, and so
        overwrote it.
        """
        return self._own.is_in_held

    @property
    def is_behind_change(self) -> bool:
        """Whether the script changed an input between the call and its backward, unseen by autograd."""
        return self._own.is_behind_change

    def _keeper(self, index: int) -> Callable[[torch.Tensor | None], None]:
        call = weakref.ref(self)  # the hook must not keep the call, or its inputs, alive

        def keep(cotangent: torch.Tensor | None) -> None:
            # Compiled autograd traces hooks: this one must add no operations to its graphs.
            if not torch.compiler.is_compiling() and cotangent is not None and (kept := call()) is not None:
                kept._arrived(index, cotangent)

        return keep

    def _arrived(self, index: int, cotangent: torch.Tensor) -> None:
        self._switches = self._switches or global_state()
        self._cotangents[index] = cotangent.detach().clone()


def _outline(output: torch.Tensor) -> torch.Tensor:
    """A meta tensor of the same shape and dtype: holding the output itself would keep CUDA graphs from reusing its memory."""
    return torch.empty_like(output, device="meta") if has_plain_storage(output) else output.detach()


class Backwards:
    """The compared calls whose backward may still follow."""

    def __init__(self) -> None:
        self._calls: list[BackwardCall] = []
        self._with: set[int | None] = set()
        self._without: set[int | None] = set()
        """Keys of calls that had a backward, and keys of calls whose outputs died without one."""

    def keep(self, call: BackwardCall) -> None:
        """Keep a call if it can have a backward; beyond `MOST_BACKWARD` the oldest are dropped."""
        if call.can_run:
            self._calls.append(call)
            for early in self._calls[:-MOST_BACKWARD]:
                early.graph.backwards_given_up += 1
            del self._calls[:-MOST_BACKWARD]

    def take(self) -> list[BackwardCall]:
        """Remove and return the calls whose backward the script has run. Calls whose outputs died without one are dropped."""
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
        """Record that compiled autograd ran a backward, and attribute it to all calls that wait for one."""
        for call in self._calls:
            call.runs_unseen()

    @property
    def is_awaited(self) -> bool:
        """Whether a compared call still waits for its backward, and no earlier call of its key decided whether there is
        one.
        """
        known = self._with | self._without
        return any(call.can_run and not call.ran and call.key not in known for call in self._calls)
