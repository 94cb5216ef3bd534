"""Detects a compiled call that overwrites an output of an earlier call while the script still holds it.

Comparing call by call cannot see this: every output is right when it is returned. CUDA graphs reuse the memory of an
output in the next replay, which is documented, and fine for a loop that keeps only the last output: there an
overwritten output explains a failing check of the script, and is not a failure in itself. An output that the script
continues to hold is reported: PyTorch 2.11 lets it be read. Elsewhere it is a failure if the script reads the output
again, which the program around the graphs shows (`engine/levels/parting.py`).
"""

from __future__ import annotations

import contextlib
import weakref
from collections import deque
from collections.abc import Collection
from typing import Any

import torch

from ..values import snapshot
from ..values.capturing import is_of_cuda_graphs
from ..values.elements import EXACT, diff_elements
from ..values.rounding import tensors

MOST_KEPT, MOST_BYTES = 8, 1 << 24
"""Most tracked outputs (the latest ones), and most bytes of each: every one is copied at every call."""
MOST_OVERWRITES = 20
"""Overwritten outputs after which the search stops: a loop that keeps only its last output has one in every call."""
Held = tuple[str, weakref.ref[torch.Tensor], torch.Tensor]
"""The name of an output, a weak reference to it, and a copy.

Weak, since CUDA graphs reuse memory by liveness.
"""


class KeptOutputs:
    """Tracks the latest outputs.

    ``overwritten`` names the first call that overwrote one, and the output; ``without_cuda_graphs`` the first that
    overwrote one outside of CUDA graph memory. Both are empty if none did.
    """

    def __init__(self) -> None:
        self._kept: deque[tuple[str, weakref.ref[torch.Tensor]]] = deque(maxlen=MOST_KEPT)
        self.overwritten = self.without_cuda_graphs = ""
        self._written: list[tuple[str, weakref.ref[torch.Tensor]]] = []
        self._outlived = ""
        self._overwrites = 0

    def outlived(self) -> str:
        """A sentence on a CUDA graph output that the script still held at a later call, or at its end.

        Call it at these moments.
        """
        for said, reference in self._written:
            if reference() is not None:
                self._outlived = self._outlived or said
        self._written.clear()
        return self._outlived

    def keep(self, call: str, returned: Any) -> None:
        """Track the outputs of a call, by weak references."""
        for index, output in enumerate(tensors(returned)):
            if snapshot.has_plain_storage(output) and output.nbytes <= MOST_BYTES:
                self._kept.append((f"output {index} of {call}", weakref.ref(output)))

    def before(self, inputs: Collection[Any]) -> list[Held]:
        """Copies of the outputs that are still alive, except those that share memory with an input: eager may write
        there too.
        """
        found: list[Held] = []
        # No error of ours may reach the script, such as CUDA graphs refusing access to memory that they have reclaimed.
        with torch.no_grad(), contextlib.suppress(Exception):
            used = {x.untyped_storage().data_ptr() for x in tensors(list(inputs)) if snapshot.has_plain_storage(x)}
            is_known = self.without_cuda_graphs or self.outlived() or self._overwrites >= MOST_OVERWRITES
            for name, reference in () if is_known else self._kept:
                output = reference()
                if output is not None and output.untyped_storage().data_ptr() not in used:
                    found.append((name, reference, output.detach().clone()))
        return found

    def writes_over(self, said: str) -> None:
        """Record that a call overwrote a result outside of CUDA graph memory, in words."""
        self.overwritten = self.overwritten or said
        self.without_cuda_graphs = self.without_cuda_graphs or said

    def after(self, call: str, held: list[Held]) -> None:
        """Compare the outputs found by `before` with their copies, after the compiled code of a call has run."""
        with torch.no_grad(), contextlib.suppress(Exception):
            for name, reference, copy in held:
                output = reference()
                if output is not None and diff_elements(copy, output, EXACT) is not None:
                    said = f"{call} writes over {name}, which the script still holds"
                    self._overwrites += 1
                    if is_of_cuda_graphs(output):
                        self.overwritten = self.overwritten or said
                        self._written.append((said, reference))
                    else:
                        self.writes_over(said)
