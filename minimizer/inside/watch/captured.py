"""`CapturedGraph`: a graph as captured by Dynamo, before the compiler touched it, with facts about its calls."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import fx

from ..graph import state
from ..graph.collectives import WHY_ONCE, communicates, has_distributed_inputs
from ..graph.lifted import LiftedGraph
from ..graph.local import LocalGraphs, parts
from ..graph.origins import owner_of, state_places
from ..graph.severed import SeveredGraph, Unseverable
from ..messages import StackLine
from ..places import caller
from ..referee.known import Known
from ..values import snapshot
from ..values.bodies import nodes_of
from ..values.snapshot import GlobalState


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
        self._severed: SeveredGraph | LocalGraphs | None = None
        self.why_not = ""
        """Why a graph that communicates is not compared; empty if it is."""
        if self.communicates:
            try:
                self._severed = (LocalGraphs if has_distributed_inputs(module) else SeveredGraph)(self.module)
            except Unseverable as error:
                self.is_whole(str(error))
            except Exception as error:  # an error of our code must not reach the user's script
                self.is_whole(f"{type(error).__name__}: {error}")
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
        self.draws_eagers = False
        """Whether its compiled code draws eager's random numbers, if any."""
        self.draws_by_inductor = False
        """Whether it draws random numbers, by Inductor's own generator where nothing watches it."""
        self.asked_own_errors = False
        """Whether one of its calls that raise was compiled with Inductor's own random operators, to see if these raise too."""
        self.backwards_given_up = 0
        """Compared calls that were dropped before their backward (see `backwards.MOST_BACKWARD`)."""
        self.eager_error: BaseException | None = None

    def is_whole(self, why: str) -> None:
        """Give up comparing a graph that communicates; ``why``: a clause."""
        self.communicates, self._severed, self.why_not = True, None, f"it {WHY_ONCE} ({why})"

    @property
    def is_severed(self) -> bool:
        """Whether it communicates and can be compared."""
        return self._severed is not None

    @property
    def is_local(self) -> bool:
        """Whether it is compared on the parts of distributed tensors that this rank holds."""
        return isinstance(self._severed, LocalGraphs)

    def severed(self, inputs: Sequence[Any]) -> SeveredGraph:
        """The graph without its collectives, for these inputs; see `given`.

        Raises:
            Exception: a collective cannot be cut out.
        """
        assert self._severed is not None
        return self._severed.severed(inputs) if isinstance(self._severed, LocalGraphs) else self._severed

    def switches(self) -> GlobalState:
        """The current switches, as eager's side of a call has them.

        Without autocast for a graph that is compared on the parts of this rank: its casts are operators of it, in islands too.
        """
        now = snapshot.state_of_a_graph()
        casts = tuple(replace(cast, enabled=cast.enabled and not self.is_local) for cast in now.autocast)
        return replace(now, autocast=casts)

    def given(self, values: Sequence[Any]) -> list[Any]:
        """Inputs or results of the graph as eager's side has them: of distributed tensors what this rank holds."""
        return list(parts(values) if self.is_local else values)

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
