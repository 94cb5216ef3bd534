"""Redraws every rounding in some calls of compiled code, and keeps tensor elements, to bound the effect of other
arithmetic.

Only computations of the recorded graphs and their backwards are redrawn, not Python's between them.
"""

from __future__ import annotations

import base64
import contextlib
from collections.abc import Collection
from contextlib import AbstractContextManager

import torch
from torch.utils._python_dispatch import _get_current_dispatch_mode, _pop_mode_temporarily

from ..referee.perturbation import Perturbation
from .tensors import TensorWords, Words, is_readable, plain
from .unseen import Unseen

MOST_ELEMENTS = 4096
"""Most elements to keep of one tensor, evenly spaced."""
MOST_KEPT = 8 << 20
"""Most characters to keep in total."""


class RedrawnGraphs:
    """Redraws the roundings in some units, which are calls and backwards by their number among both."""

    def __init__(self, seed: int, units: Collection[int]) -> None:
        self._mode, self._units, self._acts = Perturbation(seed), units, False

    @contextlib.contextmanager
    def inside(self, unit: int, what: str):  # type: ignore[no-untyped-def]
        """The context of a unit: it redraws a ``backward``; in a ``call``, its graphs are redrawn instead."""
        before, self._acts = self._acts, unit in self._units
        try:
            with self._mode if self._acts and what == "backward" else self.of_python():
                yield
        finally:
            self._acts = before

    def of_python(self) -> AbstractContextManager[object]:
        """The context of a compiled call within a backward: Dynamo compiles nothing under a dispatch mode."""
        is_on = _get_current_dispatch_mode() is self._mode
        return _pop_mode_temporarily() if is_on else contextlib.nullcontext()

    def of_graph(self) -> AbstractContextManager[object]:
        """The context of a graph's run."""
        return self._mode if self._acts else contextlib.nullcontext()


class WholeTensors(TensorWords):
    """Describes tensors, and keeps the elements of floating-point ones in the looks of one call or backward (``of``; 0: at the end).

    ``whole`` in an entry indexes ``kept``.
    """

    def __init__(self, unseen: Unseen | None = None, *, of: int | None) -> None:
        super().__init__(unseen)
        self._of = of
        self.kept: list[str] = []
        """Elements as float64, in base64; both parts of complex ones."""
        self._characters = 0

    def describe(self, tensor: torch.Tensor, path: str = "") -> Words:
        words = super().describe(tensor, path)
        is_kept = self._of is not None and self._unit == self._of
        if not is_kept or not (tensor.is_floating_point() or tensor.is_complex()) or not words.get("values"):
            return words
        with plain():
            if not is_readable(tensor) or tensor.layout is not torch.strided:
                return words
            real = tensor.detach().resolve_conj().resolve_neg().reshape(-1)
            real = torch.view_as_real(real).reshape(-1) if real.is_complex() else real
            real = real[:: -(-max(1, real.numel()) // MOST_ELEMENTS)].to("cpu", torch.float64).contiguous()
            text = base64.b64encode(bytes(real.view(torch.uint8).tolist())).decode()
        self._characters += len(text)
        if self._characters <= MOST_KEPT:
            words["whole"] = str(len(self.kept))
            self.kept.append(text)
        return words
