"""One call of a program, and its two sides: what eager gives, and what compiled code gives.

A `Call` holds all that a run depends on: inputs, random state, switches. Any function, eager's own or a compiled one, can be
run from there, as often as it takes, and leaves no trace; what one run gives is a `Side`. A `GradientCall` goes through the
backward too. Whoever compares calls, the survey, a checked backend, a trial or the table of layers, makes one of these and two
sides, and asks `referee.judge`.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor

from ..values.boundary import places
from ..values.device import settle
from ..values.snapshot import GlobalState, clone, global_state, rng_state, set_rng_state

Function = Callable[..., Any]


class Side(NamedTuple):
    """What a caller can see of one run: its result, its inputs after the call, and the gradients of its inputs."""

    result: Any
    inputs: Sequence[Any] = ()
    gradients: Sequence[Tensor | None] = ()

    def places(self) -> dict[str, Tensor]:
        """Its tensors, by the names of their places (``output[0]``, ``input[1]``, ``grad[0]``)."""
        return places(*self)


@dataclass(frozen=True)
class Call:
    """A call of ``function`` in eager, and what it begins with.

    ``inputs``: before the call; no run changes them. ``rng``: from ``snapshot.rng_state``. ``random``: both sides draw the same
    random numbers (``fallback_random``), so that random values are judged too. ``tolerance``: ``rtol`` and ``atol`` of the
    script's own comparison, which then decides; None leaves it to the referee.
    """

    function: Function
    inputs: Sequence[Any]
    rng: Mapping[str, Any]
    switches: GlobalState
    random: bool = False
    tolerance: Mapping[str, Any] | None = None

    @classmethod
    def now(cls, function: Function, inputs: Sequence[Any], **options: Any) -> Call:
        """A call that begins with the random state and the switches of this moment."""
        return cls(function, inputs, rng_state(), global_state(), **options)

    def behind(self, cotangents: Sequence[Tensor] | None) -> GradientCall:
        """The same call with its backward: one cotangent for each output that requires a gradient, or ones for None."""
        return GradientCall(
            self.function, self.inputs, self.rng, self.switches, self.random, self.tolerance, cotangents=cotangents
        )

    @contextlib.contextmanager
    def started(self) -> Iterator[None]:
        """The random state and the switches that the call begins with, for the body; afterwards those from before."""
        before = rng_state()
        set_rng_state(dict(self.rng))
        try:
            with self.switches.applied():  # a program may change them for what comes after it
                yield
        finally:
            set_rng_state(before)

    def run(self, function: Function) -> Side:
        """Run ``function`` in the place of the call's own, on a copy of the inputs."""
        values = clone(list(self.inputs))
        with self.started():
            side = self.on(function, values)
            settle()
        return side

    def on(self, function: Function, values: list[Any]) -> Side:
        """What ``function`` makes of these inputs, which it may change."""
        return Side(function(*values), values)


@dataclass(frozen=True)
class GradientCall(Call):
    """A call and the backward behind it: its sides are gradients."""

    cotangents: Sequence[Tensor] | None = None

    def on(self, function: Function, values: list[Any]) -> Side:
        """The gradients of all inputs that require one, in order, None for an unused one."""
        with torch.enable_grad():
            sources = [leaf for leaf in places(values).values() if leaf.requires_grad]
            # Of the values before the call: an input that is changed in place has another history afterwards.
            edges = [torch.autograd.graph.get_gradient_edge(source) for source in sources]
            outputs = [output for output in places(function(*values)).values() if output.requires_grad]
            if not outputs or not sources:
                return Side(None, (), [None] * len(sources))
            given = self.cotangents
            if given is None:
                weights = [torch.ones_like(output) for output in outputs]
            else:
                weights = [c.to(output.dtype) for c, output in zip(given, outputs, strict=True)]
            return Side(None, (), list(torch.autograd.grad(outputs, edges, weights, allow_unused=True)))
