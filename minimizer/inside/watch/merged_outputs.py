"""Detects a change of an output that compiled code returns as one object with another output, unlike eager.

Inductor does so with a view that has the shape of its base. While a script only writes elements there is no difference,
since both share memory. A new shape, or ``requires_grad``, shows on the other output as well.
"""

from __future__ import annotations

import contextlib
import weakref
from collections import deque
from collections.abc import Callable
from typing import Any

import torch

from ..messages import Merged
from ..referee.compare import check_identity
from ..values.boundary import Difference, boundary_of, places
from ..values.snapshot import has_plain_storage

MOST_KEPT, MOST_CHANGED = 32, 20
"""Most tracked objects (the latest ones), and most reported changed ones."""
ASPECTS: dict[str, Callable[[torch.Tensor], Any]] = {
    "shape": lambda tensor: tuple(tensor.shape),
    "stride": lambda tensor: tensor.stride() if has_plain_storage(tensor) else None,
    "offset": lambda tensor: tensor.storage_offset() if has_plain_storage(tensor) else None,
    "requires_grad": lambda tensor: tensor.requires_grad and tensor.is_leaf,
}
"""The compared aspects.

Of ``requires_grad`` that of leaves only: an in-place operation with a gradient gives one to the base of a view in
eager, too; ``requires_grad_`` does not.
"""


class MergedOutputs:
    """Tracks such objects by weak references.

    ``changed``: the calls whose returned object the script changed, each once.
    """

    def __init__(self) -> None:
        self._kept: deque[tuple[int, int, str, weakref.ref[torch.Tensor], dict[str, Any]]] = deque(maxlen=MOST_KEPT)
        self.changed: list[Merged] = []

    def keep(self, graph: int, call: int, expected: Any, actual: Any) -> bool:
        """Track the objects that a call returned as several outputs; returns whether there are any.

        ``expected``: eager's result.
        """
        merged: list[Difference] = []
        with contextlib.suppress(Exception):  # no error of ours may reach the script
            merged, returned = list(check_identity(boundary_of([("output", expected, actual)]))), places(actual)
            for difference in merged:
                output = returned[difference.where]
                what = f"{difference.where} is {difference.actual}"
                self._kept.append((graph, call, what, weakref.ref(output), _aspects(output)))
        return bool(merged)

    def look(self) -> None:
        """Compare the tracked objects that are still alive with their state at return."""
        kept, self._kept = self._kept, deque(maxlen=MOST_KEPT)
        for graph, call, what, reference, before in kept:
            with contextlib.suppress(Exception):
                output = reference()
                if output is None:
                    continue
                after = _aspects(output)
                if after == before:
                    self._kept.append((graph, call, what, reference, before))
                elif len(self.changed) < MOST_CHANGED:
                    name = next(name for name in before if before[name] != after[name])
                    said = f"{what}; its {name} was {before[name]}, and is {after[name]}"
                    self.changed.append(Merged(graph, call, said))


def _aspects(tensor: torch.Tensor) -> dict[str, Any]:
    return {name: look(tensor) for name, look in ASPECTS.items()}
