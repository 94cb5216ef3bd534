"""Makes Dynamo's backend ``eager`` recompute a checkpointed region from the forward's random state, as eager and all
other backends do.

Dynamo's operator switches that off, since compilers restore the state by other means; this backend has none, and would
draw other numbers.
"""

from __future__ import annotations

import contextvars
import functools
from collections.abc import Callable
from typing import Any

import torch.utils.checkpoint
from torch._higher_order_ops import wrap

from ..hooks import required

OPERATORS = ("TagActivationCheckpoint", "WrapActivationCheckpoint")


def draw_again(is_compiling: Callable[[], bool]) -> None:
    """Restore the random state in all recomputation by graphs, unless the script chose otherwise, for the rest of this
    process.
    """
    keeps: contextvars.ContextVar[bool | None] = contextvars.ContextVar("keeps", default=None)
    checkpoint = torch.utils.checkpoint.checkpoint

    @functools.wraps(checkpoint)
    def keeping(*args: Any, **kwargs: Any) -> Any:
        kept = keeps.get()
        return checkpoint(*args, **(kwargs if kept is None else {**kwargs, "preserve_rng_state": kept}))

    operators = [required(wrap, name) for name in OPERATORS]
    for operator, original in [(one, required(one, "__call__")) for one in operators]:
        operator.__call__ = _asking(original, is_compiling, keeps, checkpoint, keeping)


def _asking(original: Any, is_compiling: Callable[[], bool], keeps: Any, checkpoint: Any, keeping: Any) -> Any:
    @functools.wraps(original)
    def call(self: Any, graph: Any, *args: Any, **kwargs: Any) -> Any:
        if is_compiling():
            return original(self, graph, *args, **kwargs)
        token = keeps.set(bool(kwargs.get("preserve_rng_state", True)))
        torch.utils.checkpoint.checkpoint = keeping
        try:
            return original(self, graph, *args, **kwargs)
        finally:
            torch.utils.checkpoint.checkpoint = checkpoint
            keeps.reset(token)

    return call
