"""Hooks at entry and exit of ``torch.compile``'s wrappers, outside of what Dynamo traces, also run if a call raises."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from torch._dynamo import eval_frame

from ..hooks import required


def at_entries(enter: Callable[[], Callable[[], None]]) -> None:
    """Call ``enter`` at the entry of each wrapper created from now on, and its result at the exit; permanent in this
    process.
    """
    context: Any = eval_frame._TorchDynamoContext
    original = required(context, "__init__")
    required(context, "enter_exit_hooks")

    @functools.wraps(original)
    def init(this: Any, *args: Any, **kwargs: Any) -> None:
        original(this, *args, **kwargs)
        this.enter_exit_hooks.insert(0, enter)

    context.__init__ = init
