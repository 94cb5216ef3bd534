"""What is kept of a run: the captured graphs, the calls whose backward may still come, and the one that failed."""

from __future__ import annotations

import traceback
from typing import Any

import torch
from torch import fx

from ..failures import LOST, device_error
from ..graph import state
from ..graph.collectives import communicates
from ..graph.golden import GoldenGraph, storable
from ..graph.graphs import Opaque
from ..graph.lifted import LiftedGraph
from ..graph.lowering import write_down
from ..graph.origins import state_places
from ..referee import referee
from ..values import snapshot
from ..values.bodies import nodes_of
from ..values.rounding import tensors
from ..wire import Channel, Message

MOST_BACKWARD = 256
"""Calls that are kept because their backward may still come: a step of as many graphs is checked, a long evaluation costs no more."""


class CapturedGraph:
    """One graph that Dynamo captured, as it was before the compiler touched it."""

    def __init__(self, index: int, module: fx.GraphModule, backend: Any, inputs: list[Any]) -> None:
        self.index, self.backend = index, backend
        self.state_places = state_places(module, inputs)
        self.lifted = LiftedGraph(module)
        self.module = self.lifted.module
        """Takes the inputs that `LiftedGraph` has; so do all lists of inputs here."""
        self.communicates = communicates(module)
        self.recomputes = _recomputes(module)
        self.calls = self.compared = 0
        self.obstacle = ""
        """Why a call of it could not be compared, if so."""
        self.eager_seconds = 0.0
        self.random = False
        self.has_backward: bool | None = None
        """Whether the script ran a backward through a call that was compared; None until that is known."""
        self.backwards_given_up = 0
        """Compared calls that could have a backward, and had none by the next call: it was not waited for any longer."""
        self.eager_error: BaseException | None = None

    def setup_lines(self) -> tuple[list[str], list[str]]:
        """See `state.setup_lines`, of now."""
        return state.setup_lines(getattr(self.backend, "dynamic", None))


def _recomputes(module: fx.GraphModule) -> bool:
    """Whether a part of a graph is computed once more in its backward (``torch.utils.checkpoint``)."""
    checkpoint = torch.ops.higher_order.tag_activation_checkpoint
    return any(node.target is checkpoint for node in nodes_of(module))


class BackwardCall:
    """A call whose outputs took part in a backward pass of the script, kept until it can be replayed."""

    def __init__(
        self, graph: CapturedGraph, call: int, compiled: Any, before: list[Any], rng: Any, actual: Any
    ) -> None:
        self.graph, self.call, self.before, self.rng = graph, call, before, rng
        self.state = snapshot.global_state()
        """The switches that the call ran under."""
        self._compiled = compiled
        self._cotangents: dict[int, torch.Tensor] = {}
        self.ran_unseen = False
        """Whether compiled autograd has run its backward, without our hooks; cotangents of one are then as good as any."""
        self._outputs = [output for output in tensors(actual) if output.requires_grad]
        self.setup = graph.setup_lines() if self._outputs else ([], [])
        """The configs that it ran under, where a backward may come."""
        for index, output in enumerate(self._outputs):
            output.register_hook(self._keeper(index))

    @property
    def can_run(self) -> bool:
        return bool(self._outputs)

    @property
    def ran(self) -> bool:
        return bool(self._cotangents) or self.ran_unseen

    def cotangents(self) -> list[torch.Tensor]:
        """One for each output that requires grad: what the script's backward gave it, zeros where it gave nothing."""
        missing = torch.zeros_like if self._cotangents else torch.ones_like
        return [
            self._cotangents[index] if index in self._cotangents else missing(output)
            for index, output in enumerate(self._outputs)
        ]

    def eager(self) -> list[torch.Tensor | None]:
        """Eager's gradients of all inputs, in a replay."""
        snapshot.set_rng_state(self.rng)
        return referee.gradients(self.graph.module, snapshot.clone(self.before), self.cotangents())

    def compiled(self) -> list[torch.Tensor | None]:
        """The compiled ones."""
        snapshot.set_rng_state(self.rng)
        return self.graph.lifted.gradients(self._compiled, snapshot.clone(self.before), self.cotangents())

    def judge(
        self,
        expected: list[torch.Tensor | None],
        actual: list[torch.Tensor | None],
        tolerance: dict[str, float] | None,
    ) -> referee.Verdict:
        """Compare the gradients of two replays."""
        return referee.judge_gradients(
            self.graph.module, self.before, self.rng, self.cotangents(), expected, actual,
            random=self.graph.random, tolerance=tolerance,
        )  # fmt: skip

    def gradients(self, values: list[Any]) -> tuple[Any, list[Any], list[Any]]:
        """Eager's gradients on these inputs, as a program of the referee."""
        return None, [], referee.gradients(self.graph.module, values, self.cotangents())

    def _keeper(self, index: int) -> Any:
        def keep(cotangent: torch.Tensor | None) -> None:
            # Compiled autograd traces hooks: this one must leave nothing in its graphs.
            if not torch.compiler.is_compiling() and cotangent is not None:
                self._cotangents[index] = cotangent.detach().clone()

        return keep


class Backwards:
    """The compared calls whose backward may still come."""

    def __init__(self) -> None:
        self._calls: list[BackwardCall] = []

    def keep(self, call: BackwardCall) -> None:
        """Remember a call, if it can have a backward."""
        if call.can_run:
            self._calls.append(call)
            del self._calls[:-MOST_BACKWARD]

    def take(self, again: CapturedGraph | None) -> list[BackwardCall]:
        """Those whose backward the script ran since the last look.

        One that has not come may still do so, since a step may take several graphs; but not once its graph is called ``again``.
        """
        pending, self._calls = self._calls, []
        ran = []
        for call in pending:
            if call.ran:
                call.graph.has_backward = True
                ran.append(call)
            elif call.graph is again:
                call.graph.has_backward = False
                call.graph.backwards_given_up += 1
            else:
                self._calls.append(call)
        return ran

    def run_unseen(self) -> None:
        """Compiled autograd has run a backward: that of the calls that wait for one, as far as can be told."""
        for call in self._calls:
            call.ran_unseen = True

    @property
    def is_awaited(self) -> bool:
        """Whether a call was compared whose backward may be about to come, the first of its graph."""
        return any(not call.ran and call.graph.has_backward is None for call in self._calls)


class HeldCall:
    """A captured call and the questions it answers: its program, golden values, literals."""

    def __init__(
        self, graph: CapturedGraph, inputs: list[Any], rng: Any, script: str, backward: BackwardCall | None
    ) -> None:
        self._graph, self._inputs, self._rng, self._script = graph, inputs, rng, script
        self._cotangents = backward.cotangents() if backward is not None else None
        self._grad = torch.is_grad_enabled()
        self._setup, self._opaque = backward.setup if backward is not None else graph.setup_lines()
        self._golden: GoldenGraph | None = None

    def serve(self, failure: Message, channel: Channel) -> None:
        """Answer until the other end hangs up, or until the GPU with the values is lost."""
        try:
            program: Message | None = self._program("auto")
        except Exception:
            traceback.print_exc()
            program = None
        channel.send({"type": "held", "failure": failure, "program": program})
        while (question := channel.receive()) is not None:
            is_lost = False
            try:
                answer = self._answer(question)
            except Exception as error:
                answer = {"error": f"{type(error).__name__}: {error}"[:1000]}
                is_lost = device_error(error) == LOST
            channel.send({"type": "answer", "ask": question["ask"], **answer})
            if is_lost:
                return

    def _answer(self, question: Message) -> Message:
        what = question["what"]
        if what == "program":
            return {"program": self._program(question["level"])}
        assert self._golden is not None
        if what == "golden":
            names = question.get("names", {})
            found = {names.get(key, key): value for key, value in self._golden.values(question["keys"]).items()}
            torch.save(storable(found), question["file"])
            return {"saved": sorted(found)}
        if what == "literal":
            return {"text": self._golden.literal(question["key"])}
        raise ValueError(f"no such question: {what}")

    def _program(self, level: str) -> Message:
        """The graph as data at a level (``dynamo``, ``aot``; ``auto`` takes dynamo where it can); golden values follow it."""
        try:
            module, inputs, body = write_down(
                self._graph.module,
                self._inputs,
                self._rng,
                level=level,
                script=self._script,
                cotangents=self._cotangents,
            )
        except Opaque as opaque:
            if level == "dynamo":
                return {"error": str(opaque)}
            raise
        self._golden = GoldenGraph(module, inputs, self._rng, body.pop("names"))
        return {**body, **self._surroundings(body["level"])}

    def _surroundings(self, level: str) -> Message:
        """What a program needs around it."""
        backend = self._graph.backend
        return {
            "setup": self._setup,
            "opaque_settings": self._opaque,
            "compile_kwargs": state.compile_kwargs(backend, getattr(backend, "dynamic", None)),
            "grad": self._grad and level == "dynamo",
        }
