"""The table of layers: runs a graph layer by layer, each compiled separately on eager's inputs, then compiled as a
whole.

One process does all: equal layers are one function, compiled once and called with each layer's inputs. A layer's
*local* error is that of its own compiled code on eager's inputs; its *propagated* error is that of the same values in
the graph compiled as a whole, with all layers' outputs returned. Returning them breaks fusions and may hide a failure;
the report then says so.
"""

from __future__ import annotations

import contextlib
import os
import re
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
import torch._inductor.config

from ..failures import LOST, device_error
from ..messages import Phase
from ..outcome import Ending, Outcome
from ..questions import LayersRequest
from ..referee import referee
from ..referee.call import Call, GradientCall, Side
from ..referee.comparison import ComparisonStep, Judged, Raised, compare_call
from ..referee.figures import Triple, figures, matched
from ..values import snapshot
from ..values.device import settle
from ..values.rounding import tensors
from ..wire import Channel, Message
from .trial import Trial, outcome_behind, outcome_of


def layers(message: Message, channel: Channel) -> None:
    """Task of a forked child: answer a `LayersRequest` with an `Outcome` for each layer and part.

    ``part`` is ``local``, ``local backward``, ``whole`` or ``whole backward``. For the last two, layer -1 stands for the graph's own
    outputs.
    """
    _Table(LayersRequest.read(message), channel).run()


class _Table:
    def __init__(self, request: LayersRequest, channel: Channel) -> None:
        self._request, self._channel = request, channel
        self._trial = Trial(request, channel)
        self._grad = request.grad
        self._stop = time.monotonic() + request.seconds
        self._run = self._trial.compiler()

    def run(self) -> None:
        torch._inductor.config.compile_threads = self._request.threads or 1
        whole, inputs = self._trial.load()
        self._functions = whole.__globals__
        call = self._trial.call_of(whole, inputs)
        seen: dict[int, Call] = {}
        try:
            with torch.set_grad_enabled(self._grad):
                cotangents = self._walk(snapshot.clone(inputs), seen)
        except _Ended:
            return
        for index, layer in reversed(seen.items()):
            if index in cotangents and not self._is_late:
                self._judge(index, "local backward", layer.behind(cotangents[index]), _with_figures)
        if self._request.observed and not self._is_late:
            self._whole(call)

    @property
    def _is_late(self) -> bool:
        return time.monotonic() > self._stop

    def _walk(self, inputs: list[Any], seen: dict[int, Call]) -> dict[int, list[Any]]:
        """Run all layers in eager, and judge each one compiled on the same inputs.

        Returns the golden cotangents by layer.
        """
        values = dict(zip((spec.name for spec in self._request.inputs), inputs, strict=True))
        made: dict[int, list[Any]] = {}
        for index, region in enumerate(self._request.regions):
            if self._is_late:
                raise _Ended
            function = self._functions[region.function]
            args = [values[name] for name in region.inputs]
            layer = self._trial.call_of(function, snapshot.clone(args))
            is_judged = region.judged and region.function not in self._request.skip
            try:
                expected = function(*args)
                settle()
            except Exception as error:
                if is_judged and device_error(error) != LOST:
                    self._channel.send(Phase(phase="compiled"))
                    self._answer(index, "local", outcome_behind(error, layer, self._run))
                raise _Ended from error
            after = snapshot.rng_state()
            results = list(expected) if len(region.outputs) > 1 else [expected]
            values.update(zip(region.outputs, results if region.outputs else [], strict=True))
            made[index] = tensors(expected)
            if is_judged:
                self._judge(index, "local", layer, _with_figures, Side(expected, args))
                if self._grad:
                    seen[index] = layer
            snapshot.set_rng_state(after)
        return self._cotangents([values[name] for name in self._request.outputs], made) if self._grad else {}

    def _cotangents(self, outputs: list[Any], made: dict[int, list[Any]]) -> dict[int, list[Any]]:
        """The cotangents of each layer's outputs in eager's backward of the sum of all outputs.

        Empty if eager cannot compute them.
        """
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

    def _whole(self, plain: Call) -> None:
        """Judge the graph as a whole: values with all layers' outputs returned, gradients with the graph's own outputs only."""
        self._judge(-1, "whole", replace(plain, function=self._functions[self._request.observed]), self._by_layer)
        if self._grad and not self._is_late:
            self._judge(-1, "whole backward", plain.behind(None), self._by_input)

    def _by_layer(self, found: Judged) -> Outcome:
        """Send an outcome for each layer's values in the compiled whole; returns the outcome of the graph's own outputs."""
        wrong = _wrong(found, r"output(?:\[(\d+)\])?")
        triples = _triples(found)
        position = len(self._request.outputs)
        # Counted from the end: the graph may return numbers too, which have no triple; layers return tensors only.
        first = len(triples) - sum(region.returned for region in self._request.regions)
        for index, region in enumerate(self._request.regions):
            count = region.returned
            is_wrong = not wrong.isdisjoint(range(position, position + count))
            self._send(index, "whole", _ending(is_wrong), figures(triples[first : first + count]))
            position, first = position + count, first + count
        return Outcome(_ending(any(k < len(self._request.outputs) for k in wrong)))

    def _by_input(self, found: Judged) -> Outcome:
        """Send an outcome for the gradients of the graph's inputs, each attributed to the first layer that uses the input."""
        wrong = _wrong(found, r"grad\[(\d+)\]")
        names: list[str | None] = [
            spec.name
            for spec, value in zip(self._request.inputs, found.call.inputs, strict=True)
            if isinstance(value, torch.Tensor) and value.requires_grad
        ]
        triples = _triples(found)
        for index, region in enumerate(self._request.regions):
            mine = [k for k, name in enumerate(names) if name is not None and name in region.inputs]
            names = [None if k in mine else name for k, name in enumerate(names)]
            if mine and len(triples) == len(names):
                is_wrong = not wrong.isdisjoint(mine)
                self._send(index, "whole backward", _ending(is_wrong), figures([triples[k] for k in mine]))
        return Outcome(_ending(bool(wrong)))

    # small things ------------------------------------------------------------------------------------------------

    def _judge(
        self, layer: int, part: str, call: Call, told: Callable[[Judged], Outcome], expected: Side | None = None
    ) -> None:
        """Compare a call and answer. ``told``: builds the outcome of a call that the referee has judged."""
        self._channel.send(Phase(phase="compiled"))
        found = compare_call(call, self._run, expected)
        try:
            outcome = told(found) if isinstance(found, Judged) else outcome_of(found)
        except Exception as error:  # the figures of large values may need more memory than there is
            found = Raised(call, ComparisonStep.COMPARE, error)
            outcome = outcome_of(found)
        if isinstance(found, Raised) and device_error(found.error) == LOST:
            os.abort()  # treated like a crash in this layer: the others are judged in a new process
        self._answer(layer, part, outcome)

    def _answer(self, layer: int, part: str, outcome: Outcome) -> None:
        self._channel.send(replace(outcome, layer=layer, part=part))
        self._channel.send(Phase(phase="eager"))

    def _send(self, layer: int, part: str, ending: Ending, found: Message) -> None:
        self._channel.send(Outcome(ending, layer=layer, part=part, figures=found))


class _Ended(Exception):
    """Ends the table: time is over, or eager raised, so that the next layer has no inputs."""


def _wrong(found: Judged, pattern: str) -> set[int]:
    """The indices of places that match a pattern and differ between the sides (0 without an index).

    Empty if that is no fault.
    """
    differences = found.verdict.differences if found.verdict.fault else []
    return {int(place[1] or 0) for each in differences if (place := re.match(pattern, each.where))}


def _with_figures(found: Judged) -> Outcome:
    return replace(outcome_of(found), figures=figures(_triples(found)))


def _triples(found: Judged) -> list[Triple]:
    """The results, or the gradients, of both sides, and the results in double precision."""
    expected, actual = found.expected, found.actual
    if isinstance(found.call, GradientCall):
        return matched(expected.gradients, actual.gradients, None)
    return matched(tensors(expected.result), tensors(actual.result), _truth(found.call))


def _truth(call: Call) -> list[torch.Tensor] | None:
    """The results in double precision; None if the program has another meaning there, or fails."""
    with contextlib.suppress(Exception):
        wide = referee.upcast(call)
        return None if wide is None else tensors(wide)
    return None


def _ending(is_wrong: bool) -> Ending:
    return Ending.DIFFERENT if is_wrong else Ending.SAME
