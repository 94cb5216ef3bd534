"""`CapturedGraph`: a graph as captured by Dynamo, before the compiler touched it, with facts about its calls."""

from __future__ import annotations

from typing import Any

import torch
from torch import fx

from ..graph import state
from ..graph.collectives import communicates
from ..graph.lifted import LiftedGraph
from ..graph.origins import owner_of, state_places
from ..messages import StackLine
from ..places import caller
from ..referee.known import Known
from ..values.bodies import nodes_of


class CapturedGraph:
    """A graph as captured by Dynamo, before the compiler touched it, and the record of its calls."""

    def __init__(self, index: int, module: fx.GraphModule, backend: Any, inputs: list[Any]) -> None:
        self.index, self.backend = index, backend
        self.compile_id = str(torch._guards.CompileContext.current_compile_id() or "")
        """Dynamo's compile id: the number of the frame, a slash, and the number of the compilation of that frame."""
        self.called_from = caller()
        """The user's line of the graph's first call."""
        self.state_places = dict.fromkeys(state_places(module, inputs))
        """Positions of parameters and buffers among the graph's inputs, in order."""
        first = next(iter(self.state_places), None)
        placeholders = module.graph.find_nodes(op="placeholder")
        self.state_owner = owner_of(placeholders[first]).rpartition(".")[0] if first is not None else ""
        """Path of the module that owns the first parameter or buffer, relative to the compiled module."""
        self.lifted = LiftedGraph(module)
        self.module = self.lifted.module
        """Takes the inputs of `LiftedGraph` (the graph's own tensors come last); every list of inputs here has that
        form.
        """
        self.form = tuple(
            (node.op, str(node.target)) for node in self.module.graph.nodes if node.op.startswith("call_")
        )
        """The operations it calls, in order.

        Equal for equal modules, even if only some of their inputs require gradients.
        """
        self.communicates = communicates(module)
        self.recomputes = _recomputes(module)
        self.resizes = _resizes(module)
        self.known: Known | None = None if _has_bodies(module) else Known()
        """The referee's knowledge of every call of the graph; None if it can differ from call to call."""
        self.calls = 0
        self.key: int | None = None
        """The key of its last call; see `Keys`."""
        self.watched: list[int] = []
        """Numbers of the calls to compare."""
        self.compared: list[int] = []
        """Numbers of the calls that were compared."""
        self.backward: list[int] = []
        """Numbers of the calls whose gradients were compared."""
        self.obstacle = ""
        """Why a call could not be compared; empty if none failed to be."""
        self.eager_seconds = 0.0
        self.random = False
        self.draws_by_inductor = False
        """Whether it draws random numbers, by Inductor's own generator where nothing watches it."""
        self.asked_own_errors = False
        """Whether one of its calls that raise was compiled with Inductor's own random operators, to see if these raise too."""
        self.backwards_given_up = 0
        """Compared calls that were dropped before their backward (see `backwards.MOST_BACKWARD`)."""
        self.eager_error: BaseException | None = None

    @property
    def called_at(self) -> StackLine | None:
        """`called_from`, as a line of a stack."""
        if self.called_from is None:
            return None
        file, line, code = self.called_from
        return StackLine(str(file), int(str(line)), str(code), "")

    def setup_lines(self) -> tuple[list[str], list[str]]:
        """`state.setup_lines` for the current state."""
        return state.setup_lines(getattr(self.backend, "dynamic", None))


def _recomputes(module: fx.GraphModule) -> bool:
    """Whether the backward recomputes a part of the graph (``torch.utils.checkpoint``)."""
    checkpoint = torch.ops.higher_order.tag_activation_checkpoint
    return any(node.target is checkpoint for node in nodes_of(module))


def _resizes(module: fx.GraphModule) -> bool:
    """Whether the graph may give a tensor more memory, or take it away: that of a file keeps its size."""
    return any("resize" in str(node.target) for node in nodes_of(module))


def _has_bodies(module: fx.GraphModule) -> bool:
    """Whether the graph has higher-order operators, such as ``cond``, that may run another body at each call."""
    return any(isinstance(node.target, torch._ops.HigherOrderOperator) for node in nodes_of(module))
