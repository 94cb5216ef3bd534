"""Holds the failing call: stops the script there for good, and answers questions about the call.

The call's values stay in memory; only requested values are written to a file.
"""

from __future__ import annotations

import contextlib
import traceback
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import fx

from ..failures import LOST, device_error
from ..graph import state
from ..graph.golden import GoldenGraph, storable
from ..graph.launches import modules_of
from ..graph.literals import Opaque
from ..graph.lowering import write_down
from ..graph.recipes import Recipe, recipe
from ..messages import Failure, Held
from ..questions import (
    ForgetQuestion,
    GoldenQuestion,
    LiteralQuestion,
    ProgramQuestion,
    Question,
    read_question,
)
from ..referee.call import Call, GradientCall
from ..wire import Channel, Message
from .backwards import BackwardCall
from .captured import CapturedGraph
from .line import Line, end_with
from .record import Record

MOST_EARLIER = 8
"""Earlier calls of the failing graph to keep: the first one and the latest."""


class Holder:
    """Holds the first failing call, or the one at a place from an earlier run.

    At a given place, the script is stopped before compiled code runs, which is how a crash is held.
    """

    def __init__(self, line: Line, record: Record) -> None:
        self._line, self._record, self._at = line, record, record.asked.hold
        self._earlier: list[Recipe] = []
        """Recipes for the inputs of the calls before the held one: the first call, and the last few."""

    def is_at(self, graph: CapturedGraph, number: int | None, phase: str = "run") -> bool:
        """Whether the place is this call in this phase, to be held before its outcome is known."""
        return self.needs(graph, number) and self._at is not None and self._at.phase == phase

    def needs(self, graph: CapturedGraph, number: int | None) -> bool:
        """Whether the place is this call, in either phase."""
        return self._at is not None and (self._at.graph, self._at.call) == (graph.index, number)

    def note_call(self, graph: CapturedGraph, args: list[Any]) -> None:
        """Keep the recipe of a call's inputs, if the call belongs to the graph of the place.

        A call whose inputs have no source text is left out, and so is one of a graph that communicates: the graph without its collectives
        also takes what these returned, which is not known of it.
        """
        if self._at is None or self._at.graph != graph.index or self._at.call is None or graph.is_severed:
            return
        with contextlib.suppress(Exception):
            if len(self._earlier) == MOST_EARLIER:
                del self._earlier[1]
            self._earlier.append(recipe(graph.lifted.inputs(args)))

    def hold(self, graph: CapturedGraph, call: Call, failure: Failure, backward: BackwardCall | None = None) -> None:
        """Stop the script here and answer questions about a call, or its ``backward``, until the pipe closes.

        Does not return.
        """
        self._line.take_last_word()
        number = graph.calls - 1 if backward is None else backward.number
        instance = self._record.coverage.keys.name(graph.key if backward is None else backward.key)
        at = replace(failure, graph=graph.index, call=number, checked=self._record.checked(), instance=instance)

        def serve() -> None:
            at.health = self._record.health.found(self._record.coverage.graphs)
            with call.switches.applied():
                setup = (*graph.setup_lines(), []) if backward is None else backward.surroundings()
                held = HeldCall(graph, call, setup, instance, self._earlier)
                held.serve(at, self._line.channel)

        end_with(serve)


class HeldCall:
    """A captured call, and the questions that it answers: its program, golden values, literals, the calls before it."""

    def __init__(
        self,
        graph: CapturedGraph,
        call: Call,
        setup: tuple[list[str], list[str], list[str]],
        instance: str,
        earlier: Sequence[Recipe],
    ) -> None:
        self._graph, self._call, self._instance = graph, call, instance
        assert isinstance(call.function, fx.GraphModule)
        self._module = call.function
        """The graph that the call runs: without its collectives where it communicates."""
        self._setup, self._opaque, self._around = setup
        self._earlier = earlier
        self._golden: GoldenGraph | None = None

    def serve(self, failure: Failure, channel: Channel) -> None:
        """Answer questions until the pipe closes, or until the GPU with the values is lost."""
        try:
            program: Message | None = self._program("auto")
        except Exception:
            traceback.print_exc()
            program = None
        channel.send(Held(failure, program))
        while (message := channel.receive()) is not None:
            is_lost = False
            try:
                answer = self._answer(read_question(message))
            except Exception as error:
                answer = {"error": f"{type(error).__name__}: {error}"[:1000]}
                is_lost = device_error(error) == LOST
            channel.send({"type": "answer", "ask": message["ask"], **answer})
            if is_lost:
                return

    def _answer(self, question: Question) -> Message:
        if isinstance(question, ProgramQuestion):
            return {"program": self._program(question.level)}
        assert self._golden is not None
        if isinstance(question, GoldenQuestion):
            found = {question.names.get(key, key): value for key, value in self._golden.values(question.keys).items()}
            torch.save(storable(found), question.file)
            return {"saved": sorted(found)}
        if isinstance(question, ForgetQuestion):
            for file in question.files:
                Path(file).unlink(missing_ok=True)
            return {}
        if isinstance(question, LiteralQuestion):
            return {"text": self._golden.literal(question.key)}
        return {"calls": [self._recipe(made) for made in (*self._earlier, recipe(self._call.inputs))]}

    def _recipe(self, made: Recipe) -> Message:
        """The recipe of a call's inputs, by their names in the program."""
        assert self._golden is not None
        places = {node: index for index, node in enumerate(self._module.graph.find_nodes(op="placeholder"))}
        named = {name: places[node] for name, node in self._golden.names.items() if node in places}
        return {"statements": made.statements, "values": {name: made.values[at] for name, at in named.items()}}

    def _program(self, level: str) -> Message:
        """The graph as data at a level (see `write_down`; ``auto`` prefers dynamo); later golden values refer to this graph."""
        try:
            module, inputs, body = write_down(
                self._module,
                list(self._call.inputs),
                dict(self._call.rng),
                level=level,
                called_from=self._graph.called_from,
                cotangents=self._call.cotangents if isinstance(self._call, GradientCall) else None,
                behind=self._call.backward,
            )
        except Opaque as opaque:
            if level in ("dynamo", "weighted"):
                return {"error": str(opaque)}
            raise
        for node in body["nodes"]:  # from the root of the model, not from the compiled module
            node["module"] = ".".join(filter(None, (self._instance, node.get("module"))))
        self._golden = GoldenGraph(module, inputs, dict(self._call.rng), body.pop("names"))
        return {**body, **self._surroundings(body["level"])}

    def _surroundings(self, level: str) -> Message:
        """The program's context: setup statements, settings without source text, ``torch.compile`` arguments, grad
        mode.
        """
        backend = self._graph.backend
        return {
            "setup": [*(f"import {module}" for module in modules_of(self._module)), *self._setup],
            "around": self._around,
            "opaque_settings": self._opaque,
            "compile_kwargs": state.compile_kwargs(backend, getattr(backend, "dynamic", None)),
            "has_inline_backend": state.is_inline(backend),
            "grad": self._call.switches.grad and level == "dynamo",
        }
