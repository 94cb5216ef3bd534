"""The inputs of a trace: tensors first used as arguments, with their values at that time, and the generators it draws
from.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from ..graph.golden import literal, storable
from ..graph.literals import Opaque
from ..graph.recipes import made
from ..values import snapshot

LITERAL_ELEMENTS = 16
"""Elements of the longest tensor that is written into the program instead of the file next to it."""


@dataclass
class Inputs:
    """Copies of inputs, each with its whole storage, and source text for short ones."""

    most_bytes: int
    values: dict[int, Tensor] = field(default_factory=dict)
    """By number: the inputs that go to the file."""
    exact: dict[int, str] = field(default_factory=dict)
    """Source text for the exact values, if there is one."""
    alike: dict[int, str] = field(default_factory=dict)
    """Source text of a tensor of ones with the same shape, dtype and device, for floating-point inputs."""
    drawn: dict[int, str] = field(default_factory=dict)
    """Source text of a random tensor of similar range, for inputs that torch can draw: integers between the same
    bounds.
    """
    grads: dict[int, bool] = field(default_factory=dict)
    """Whether each requires gradients."""
    bytes: int = 0

    @property
    def is_full(self) -> bool:
        """Whether they exceed their memory limit."""
        return self.bytes > self.most_bytes

    def take(self, number: int, tensor: Tensor) -> None:
        """Copy an input as it is now."""
        self.grads[number] = tensor.requires_grad
        whole = tensor.detach()
        size = (
            whole.untyped_storage().nbytes()
            if snapshot.has_plain_storage(whole)
            else whole.numel() * whole.element_size()
        )
        text = _exact(whole)
        if whole.is_floating_point():
            self.alike[number] = _ones(whole)
        if (drawn := _drawn(whole)) is not None:
            self.drawn[number] = drawn
        with torch.no_grad():
            if text is not None:
                self.exact[number] = text
            else:
                self.bytes += size
                if not self.is_full:
                    self.values[number] = snapshot.clone(whole)

    def forget(self, number: int) -> None:
        """Drop an input that could not be copied as a whole."""
        for held in (self.values, self.exact, self.alike, self.drawn, self.grads):
            held.pop(number, None)

    def save(self, file: str, names: list[str]) -> list[str]:
        """Write the values to a file for ``torch.load(weights_only=True)``, by name; returns the names in it."""
        named = {names[number]: value for number, value in self.values.items()}
        if named:
            torch.save(storable(named), file)
        return list(named)


def _exact(value: Tensor) -> str | None:
    """Source text for the exact values of a tensor with its own storage: a short literal, or one repeated number."""
    if not snapshot.has_plain_storage(value) or not value.is_contiguous() or value.is_inference():
        return None
    if value.untyped_storage().nbytes() != value.numel() * value.element_size():
        return None
    if value.numel() > 1 and not value.is_complex() and bool((value == value.flatten()[0]).all()):
        return made(value)
    text = literal(value) if value.numel() <= LITERAL_ELEMENTS else None
    return text if text is None or value.device.type == "cpu" else f'{text[:-1]}, device="{value.device.type}")'


def _ones(value: Tensor) -> str:
    dtype = "" if value.dtype is torch.get_default_dtype() else f", dtype={value.dtype}"
    device = "" if value.device.type == "cpu" else f', device="{value.device.type}"'
    return f"torch.ones({', '.join(map(str, value.shape)) or '()'}{dtype}{device})"


def _drawn(value: Tensor) -> str | None:
    """Source text for similar random values; None for a tensor without storage, or a dtype that torch cannot draw."""
    if not snapshot.has_plain_storage(value) or value.is_inference():
        return None
    try:
        return made(value)
    except (Opaque, RuntimeError):  # for instance, torch cannot compare 8-bit numbers
        return None


@dataclass
class Draws:
    """The states of generators between drawing events, so that each event draws the same as in the script."""

    _states: dict[int, Tensor] = field(default_factory=dict)
    """The state of each generator after the events so far, by its number; -1: the default one."""

    def is_continued(self, number: int, generator: torch.Generator, before: Tensor) -> bool:
        """Whether a drawing event found the generator as the last such event left it; records its state now."""
        known = self._states.get(number)
        self._states[number] = generator.get_state()
        return known is not None and torch.equal(known, before)


def seed_of(generator: torch.Generator, state: Tensor) -> int | None:
    """The seed that gives a generator this state; None if it has drawn since it was seeded."""
    seed = generator.initial_seed()
    fresh = torch.Generator(generator.device).manual_seed(seed)
    return seed if torch.equal(fresh.get_state(), state) else None


def flat(values: Any) -> list[Any]:
    """The leaves of nested tuples, lists and dicts."""
    if isinstance(values, (tuple, list)):
        return list(itertools.chain.from_iterable(map(flat, values)))
    if isinstance(values, dict):
        return list(itertools.chain.from_iterable(map(flat, values.values())))
    return [values]
