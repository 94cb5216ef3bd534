"""A graph that Dynamo captured, as it was before the compiler touched it, and what is known of its calls."""

from __future__ import annotations

from typing import Any

import torch
from torch import fx

from ..graph import state
from ..graph.collectives import communicates
from ..graph.lifted import LiftedGraph
from ..graph.origins import owner_of, state_places
from ..places import caller
from ..values.bodies import nodes_of


class CapturedGraph:
    """One graph that Dynamo captured, as it was before the compiler touched it."""

    def __init__(self, index: int, module: fx.GraphModule, backend: Any, inputs: list[Any]) -> None:
        self.index, self.backend = index, backend
        self.called_from = caller()
        """The user's line that calls it first."""
        self.state_places = dict.fromkeys(state_places(module, inputs))
        """The positions of parameters and buffers among its inputs, in order."""
        first = next(iter(self.state_places), None)
        placeholders = module.graph.find_nodes(op="placeholder")
        self.state_owner = owner_of(placeholders[first]).rpartition(".")[0] if first is not None else ""
        """The path of the module that the first of them belongs to, from what was compiled."""
        self.lifted = LiftedGraph(module)
        self.module = self.lifted.module
        """Takes the inputs that `LiftedGraph` has; so do all lists of inputs here."""
        self.form = tuple(
            (node.op, str(node.target)) for node in self.module.graph.nodes if node.op.startswith("call_")
        )
        """What it calls, in order: the same for equal modules, also where some of their inputs need gradients."""
        self.communicates = communicates(module)
        self.recomputes = _recomputes(module)
        self.rounded: set[str] | None = None if _has_bodies(module) else set()
        """Places whose values are rounded in every call, as far as that is known; None where it depends on the call."""
        self.calls = 0
        self.key: int | None = None
        """That of its last call; see `Keys`."""
        self.watched: list[int] = []
        """The numbers of the calls that were to be compared;"""
        self.compared: list[int] = []
        """those that were,"""
        self.backward: list[int] = []
        """and those whose gradients were."""
        self.obstacle = ""
        """Why a call of it could not be compared, if so."""
        self.eager_seconds = 0.0
        self.random = False
        self.backwards_given_up = 0
        """Compared calls that might have had a backward, and were not kept any longer."""
        self.eager_error: BaseException | None = None

    def setup_lines(self) -> tuple[list[str], list[str]]:
        """See `state.setup_lines`, of now."""
        return state.setup_lines(getattr(self.backend, "dynamic", None))


def _recomputes(module: fx.GraphModule) -> bool:
    """Whether a part of a graph is computed once more in its backward (``torch.utils.checkpoint``)."""
    checkpoint = torch.ops.higher_order.tag_activation_checkpoint
    return any(node.target is checkpoint for node in nodes_of(module))


def _has_bodies(module: fx.GraphModule) -> bool:
    """Whether there are operators with bodies of their own, of which each call may run another one."""
    return any(isinstance(node.target, torch._ops.HigherOrderOperator) for node in nodes_of(module))
