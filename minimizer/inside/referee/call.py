"""One call of a program, and its two sides, eager and compiled.

A `Call` holds everything that a run depends on: inputs, random state, switches. An eager or compiled function can be run from it
any number of times without side effects; the result of one run is a `Side`. A `GradientCall` runs the backward too. All code that
compares calls makes a `Call` and has `comparison` run its two sides.
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
from ..values.snapshot import GlobalState, clone, global_state, kept, rng_state, set_rng_state

Function = Callable[..., Any]


class Unplayable(Exception):
    """Compiled code cannot be rerun on these inputs as the same call."""


class Side(NamedTuple):
    """Everything a caller can see of one run: the result, the inputs after the call, and the gradients of the inputs."""

    result: Any
    inputs: Sequence[Any] = ()
    gradients: Sequence[Tensor | None] = ()

    def places(self) -> dict[str, Tensor]:
        """The side's tensors by place: ``output[0]``, ``input[1]``, ``grad[0]``."""
        return places(*self)

    def kept(self) -> Side:
        """The side with large gradients in files, where they take no memory."""
        return self._replace(gradients=[*map(kept, self.gradients)])

    def in_container_of(self, other: Side) -> Side:
        """The side with its result in the container of the other's: backends return lists, whatever the graph's own container is."""
        if isinstance(self.result, (tuple, list)) and isinstance(other.result, (tuple, list)):
            return self._replace(result=type(other.result)(self.result))
        return self


@dataclass(frozen=True)
class Call:
    """An eager call of ``function``, with the state that it starts from.

    ``inputs``: before the call; no run changes them. ``rng``: from ``snapshot.rng_state``. ``random``: both sides draw the same
    random numbers (``fallback_random``), so that random values are judged too. ``tolerance``: ``rtol`` and ``atol`` of the
    script's own comparison, which then decides; None: the referee's rules decide. ``identity``: outputs that are one object where
    eager's are two are a difference. ``backward``: the switches under which its backward
    runs, of which autocast's count; None: those of the call.
    """

    function: Function
    inputs: Sequence[Any]
    rng: Mapping[str, Any]
    switches: GlobalState
    random: bool = False
    tolerance: Mapping[str, Any] | None = None
    backward: GlobalState | None = None
    identity: bool = False

    @classmethod
    def now(cls, function: Function, inputs: Sequence[Any], **options: Any) -> Call:
        """A call that starts from the current random state and switches."""
        return cls(function, inputs, rng_state(), global_state(), **options)

    def behind(self, cotangents: Sequence[Tensor] | None) -> GradientCall:
        """The same call with its backward. ``cotangents``: one for each output that requires a gradient; None: ones."""
        known = {name: getattr(self, name) for name in Call.__dataclass_fields__}
        return GradientCall(**known, cotangents=cotangents)

    @contextlib.contextmanager
    def started(self) -> Iterator[None]:
        """Set the call's random state and switches for the body, and restore the previous ones."""
        before = rng_state()
        set_rng_state(dict(self.rng))
        try:
            with self.switches.applied():  # a program may change them, and they must be restored
                yield
        finally:
            set_rng_state(before)

    def run(self, function: Function) -> Side:
        """Run ``function`` in place of the call's own, on a copy of the inputs."""
        values = clone(list(self.inputs))
        with self.started():
            side = self.on(function, values)
            settle()
        return side.kept()

    def on(self, function: Function, values: list[Any]) -> Side:
        """Run ``function`` on these inputs, which it may change; its side."""
        return Side(function(*values), values)


@dataclass(frozen=True)
class GradientCall(Call):
    """A call with its backward; its sides are gradients."""

    cotangents: Sequence[Tensor] | None = None

    def on(self, function: Function, values: list[Any]) -> Side:
        """Run ``function`` and its backward; a side with the gradients of all inputs that require one, None for an unused one."""
        with torch.enable_grad():
            sources = [leaf for leaf in places(values).values() if leaf.requires_grad]
            # With respect to the inputs before the call: an input modified in place has another history afterwards.
            edges = [torch.autograd.graph.get_gradient_edge(source) for source in sources]
            outputs = [output for output in places(function(*values)).values() if output.requires_grad]
            if not outputs or not sources:
                return Side(None, (), [None] * len(sources))
            given = self.cotangents
            if given is None:
                weights = [torch.ones_like(output) for output in outputs]
            else:
                weights = [c.to(output.dtype) for c, output in zip(given, outputs, strict=True)]
            # A script that follows PyTorch's advice leaves autocast before it calls the backward.
            with self.switches.casting() if self.backward is None else self.backward.casting():
                return Side(None, (), list(torch.autograd.grad(outputs, edges, weights, allow_unused=True)))
