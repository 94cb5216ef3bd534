"""Outputs of earlier calls that the script still holds, and whether a later call of compiled code writes over one.

A comparison of each call by itself cannot see that: every output is right when it is returned. CUDA graphs hand out memory that the
next replay uses again, and a loop that keeps only the last output is right to let them; so this explains a failing check of the
script's own, and is no failure by itself.
"""

from __future__ import annotations

import contextlib
import weakref
from collections import deque
from collections.abc import Collection
from typing import Any

import torch

from ..values import snapshot
from ..values.elements import EXACT, diff_elements
from ..values.rounding import tensors

MOST_KEPT, MOST_BYTES = 8, 1 << 24
"""Outputs that are looked at, the latest ones, and the largest of them: a copy of each is made for every call."""
Held = tuple[str, weakref.ref[torch.Tensor], torch.Tensor]
"""The name of an output, the output itself (CUDA graphs go by what is alive: nothing here keeps it so), and a copy."""


class KeptOutputs:
    """``overwritten`` says which call wrote over which output, of the first that did; empty if none has."""

    def __init__(self) -> None:
        self._kept: deque[tuple[str, weakref.ref[torch.Tensor]]] = deque(maxlen=MOST_KEPT)
        self.overwritten = ""

    def keep(self, call: str, returned: Any) -> None:
        """Remember the outputs of a call, for as long as the script holds them."""
        for index, output in enumerate(tensors(returned)):
            if snapshot.has_plain_storage(output) and output.nbytes <= MOST_BYTES:
                self._kept.append((f"output {index} of {call}", weakref.ref(output)))

    def before(self, inputs: Collection[Any]) -> list[Held]:
        """The outputs that are still held, each with a copy, less those that share memory with an input: eager may write there too."""
        found: list[Held] = []
        # The script must not see our trouble, such as CUDA graphs that refuse what they have taken back.
        with torch.no_grad(), contextlib.suppress(Exception):
            used = {x.untyped_storage().data_ptr() for x in tensors(list(inputs)) if snapshot.has_plain_storage(x)}
            for name, reference in () if self.overwritten else self._kept:
                output = reference()
                if output is not None and output.untyped_storage().data_ptr() not in used:
                    found.append((name, reference, output.detach().clone()))
        return found

    def after(self, call: str, held: list[Held]) -> None:
        """Compare what `before` has found with its copies, after the compiled code of a call has run."""
        with torch.no_grad(), contextlib.suppress(Exception):
            for name, reference, copy in held:
                output = reference()
                if not self.overwritten and output is not None and diff_elements(copy, output, EXACT) is not None:
                    self.overwritten = f"{call} writes over {name}, which the script still holds"
