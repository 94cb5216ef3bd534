"""The table of layers: runs a graph layer by layer, each compiled separately on eager's inputs, then the whole graph compiled.

One process does all: equal layers are one function, compiled once and called with each layer's inputs. A layer's *local* error is
that of its own compiled code on eager's inputs; its *propagated* error is that of the same values in the graph compiled as a whole,
with all layers' outputs returned. Returning them breaks fusions and may hide a failure; the report then says so.
"""

from __future__ import annotations

import contextlib
import os
import re
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import torch
import torch._inductor.config

from ..failures import LOST, device_error
from ..messages import Phase
from ..outcome import Ending, Outcome
from ..questions import LayersRequest
from ..referee import referee
from ..referee.call import Call, Function, GradientCall, Side
from ..referee.figures import figures, matched
from ..values import snapshot
from ..values.device import settle
from ..values.rounding import tensors
from ..wire import Channel, Message
from .trial import Trial


def layers(message: Message, channel: Channel) -> None:
    """Task of a forked child: answer a `LayersRequest` with an `Outcome` for each layer and part.

    ``part`` is ``local``, ``local backward``, ``whole`` or ``whole backward``. For the last two, layer -1 stands for the graph's own
    outputs.
    """
    _Table(LayersRequest.read(message), channel).run()


@dataclass(frozen=True)
class _Layer:
    """A layer's index in execution order, and its eager call."""

    index: int
    call: Call


class _Table:
    def __init__(self, request: LayersRequest, channel: Channel) -> None:
        self._request, self._channel = request, channel
        self._trial = Trial(request, channel)
        self._grad = request.grad
        self._stop = time.monotonic() + request.seconds
        self._compiled: dict[str, Function] = {}

    def run(self) -> None:
        torch._inductor.config.compile_threads = self._request.threads or 1
        whole, inputs = self._trial.load()
        self._functions = whole.__globals__
        call = self._trial.call_of(whole, inputs)
        seen: list[_Layer] = []
        try:
            with torch.set_grad_enabled(self._grad):
                cotangents = self._walk(snapshot.clone(inputs), seen)
        except _Ended:
            return
        for layer in reversed(seen):
            if cotangents and layer.index in cotangents and not self._is_late:
                self._backward(layer, cotangents[layer.index])
        if self._request.observed and not self._is_late:
            self._whole(call)

    @property
    def _is_late(self) -> bool:
        return time.monotonic() > self._stop

    def _walk(self, inputs: list[Any], seen: list[_Layer]) -> dict[int, list[Any]]:
        """Run all layers in eager, and judge each one compiled on the same inputs. Returns the golden cotangents by layer."""
        values = dict(zip((spec.name for spec in self._request.inputs), inputs, strict=True))
        made: dict[int, list[Any]] = {}
        for index, region in enumerate(self._request.regions):
            if self._is_late:
                raise _Ended
            function = self._functions[region.function]
            args = [values[name] for name in region.inputs]
            layer = _Layer(index, self._trial.call_of(function, snapshot.clone(args)))
            is_judged = region.judged and region.function not in self._request.skip
            try:
                expected = function(*args)
                settle()
            except Exception as error:
                if is_judged and device_error(error) != LOST:
                    self._missing(layer, error)
                raise _Ended from error
            after = snapshot.rng_state()
            results = list(expected) if len(region.outputs) > 1 else [expected]
            values.update(zip(region.outputs, results if region.outputs else [], strict=True))
            made[index] = tensors(expected)
            if is_judged:
                self._local(layer, Side(expected, args))
                if self._grad:
                    seen.append(layer)
            snapshot.set_rng_state(after)
        return self._cotangents([values[name] for name in self._request.outputs], made) if self._grad else {}

    def _cotangents(self, outputs: list[Any], made: dict[int, list[Any]]) -> dict[int, list[Any]]:
        """The cotangents of each layer's outputs in eager's backward of the sum of all outputs; empty if eager cannot compute them."""
        roots = [output for output in tensors(outputs) if output.requires_grad]
        edges = [value for values in made.values() for value in values if value.requires_grad]
        if not roots or not edges:
            return {}
        try:
            found = torch.autograd.grad(roots, edges, [torch.ones_like(root) for root in roots], allow_unused=True)
        except RuntimeError:  # a value that a later layer modified in place is no longer part of the autograd graph
            return {}
        golden = iter(found)
        return {
            index: [
                torch.zeros_like(v) if (g := next(golden)) is None else g.detach() for v in values if v.requires_grad
            ]
            for index, values in made.items()
        }

    def _local(self, layer: _Layer, expected: Side) -> None:
        call = layer.call

        def judge() -> Outcome:
            actual = call.run(self._of(layer))
            verdict = _judged(call, expected, actual)
            return _said(verdict, figures(matched(tensors(expected.result), tensors(actual.result), _truth(call))))

        self._answer(layer.index, "local", judge)

    def _missing(self, layer: _Layer, error: Exception) -> None:
        """Judge a layer that raises in eager: whether it raises when compiled too."""

        def judge() -> Outcome:
            try:
                layer.call.run(self._of(layer))
            except Exception:
                return Outcome.of_error(Ending.EAGER_ERROR, error)
            return Outcome.of_error(Ending.MISSING_ERROR, error)

        self._answer(layer.index, "local", judge)

    def _backward(self, layer: _Layer, cotangents: list[Any]) -> None:
        behind = layer.call.behind(cotangents)

        def judge() -> Outcome:
            expected, actual = behind.run(behind.function), behind.run(self._of(layer))
            verdict = _judged(behind, expected, actual)
            return _said(verdict, figures(matched(expected.gradients, actual.gradients, None)))

        self._answer(layer.index, "local backward", judge)

    def _whole(self, plain: Call) -> None:
        """Judge the graph as a whole: values with all layers' outputs returned, gradients with the graph's own outputs only."""
        call = replace(plain, function=self._functions[self._request.observed])

        def judge() -> Outcome:
            expected, actual = call.run(call.function), call.run(self._trial.compile(call.function))
            verdict = _judged(call, expected, actual)
            triples = matched(tensors(expected.result), tensors(actual.result), _truth(call))
            return self._by_layer(verdict, triples)

        self._answer(-1, "whole", judge)
        if self._grad and not self._is_late:
            self._whole_backward(plain.behind(None))

    def _by_layer(self, verdict: referee.Verdict, triples: list[Any]) -> Outcome:
        """Send an outcome for each layer's values in the compiled whole; returns the outcome of the graph's own outputs."""
        wrong = {
            int(place[1] or 0) for d in verdict.differences if (place := re.match(r"output(?:\[(\d+)\])?", d.where))
        }
        wrong = wrong if verdict.fault else set()
        position = len(self._request.outputs)
        # Counted from the end: the graph may return numbers too, which have no triple; layers return tensors only.
        first = len(triples) - sum(region.returned for region in self._request.regions)
        for index, region in enumerate(self._request.regions):
            count = region.returned
            is_wrong = not wrong.isdisjoint(range(position, position + count))
            self._send(index, "whole", _ending(is_wrong), figures(triples[first : first + count]))
            position, first = position + count, first + count
        is_wrong = verdict.fault and any(k < len(self._request.outputs) for k in wrong)
        return Outcome(_ending(is_wrong))

    def _whole_backward(self, behind: GradientCall) -> None:
        """Judge the gradients of the graph's inputs; each is attributed to the first layer that uses the input."""

        def judge() -> Outcome:
            expected, actual = behind.run(behind.function), behind.run(self._trial.compile(behind.function))
            verdict = _judged(behind, expected, actual)
            places = [re.match(r"grad\[(\d+)\]", d.where) for d in verdict.differences]
            wrong = {int(place[1]) for place in places if place and verdict.fault}
            names: list[str | None] = [
                spec.name
                for spec, value in zip(self._request.inputs, behind.inputs, strict=True)
                if isinstance(value, torch.Tensor) and value.requires_grad
            ]
            triples = matched(expected.gradients, actual.gradients, None)
            for index, region in enumerate(self._request.regions):
                mine = [k for k, name in enumerate(names) if name is not None and name in region.inputs]
                names = [None if k in mine else name for k, name in enumerate(names)]
                if mine and len(triples) == len(names):
                    is_wrong = not wrong.isdisjoint(mine)
                    self._send(index, "whole backward", _ending(is_wrong), figures([triples[k] for k in mine]))
            return Outcome(_ending(bool(wrong)))

        self._answer(-1, "whole backward", judge)

    # small things ------------------------------------------------------------------------------------------------

    def _answer(self, layer: int, part: str, judge: Callable[[], Outcome]) -> None:
        self._channel.send(Phase(phase="compiled"))
        try:
            outcome = judge()
        except Exception as error:
            if device_error(error) == LOST:
                os.abort()  # treated like a crash in this layer: the others are judged in a new process
            is_ours = isinstance(error, _Unjudged)
            outcome = Outcome.of_error(Ending.SETUP_ERROR, error) if is_ours else Outcome.raised(error)
        self._channel.send(replace(outcome, layer=layer, part=part))
        self._channel.send(Phase(phase="eager"))

    def _send(self, layer: int, part: str, ending: Ending, found: Message) -> None:
        self._channel.send(Outcome(ending, layer=layer, part=part, figures=found))

    def _of(self, layer: _Layer) -> Function:
        """The layer's compiled function, shared by equal layers; it compiles at its first call."""
        name = self._request.regions[layer.index].function
        if name not in self._compiled:
            self._compiled[name] = self._trial.compile(layer.call.function)
        return self._compiled[name]


class _Ended(Exception):
    """Ends the table: time is over, or eager raised, so that the next layer has no inputs."""


class _Unjudged(Exception):
    """The referee raised an exception."""


def _judged(call: Call, expected: Side, actual: Side) -> referee.Verdict:
    try:
        return referee.judge(call, expected, actual)
    except Exception as error:
        raise _Unjudged(f"{type(error).__name__}: {error}") from error


def _truth(call: Call) -> list[torch.Tensor] | None:
    """The results in double precision; None if the program means something else there, or fails."""
    with contextlib.suppress(Exception):
        wide = referee.upcast(call)
        return None if wide is None else tensors(wide)
    return None


def _said(verdict: referee.Verdict, found: Message) -> Outcome:
    ending = Ending.NONDETERMINISTIC if verdict.nondeterministic else _ending(verdict.fault)
    return Outcome(ending, verdict=verdict, figures=found)


def _ending(is_wrong: bool) -> Ending:
    return Ending.DIFFERENT if is_wrong else Ending.SAME
