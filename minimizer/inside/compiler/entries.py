"""Hooks at the entry and exit of the wrappers that ``torch.compile`` returns, outside of what Dynamo traces, and also if a call raises."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from torch._dynamo import eval_frame


def at_entries(enter: Callable[[], Callable[[], None]]) -> None:
    """Call ``enter`` at the entry of each wrapper that is made from now on, and what it returns at its exit, in this process for good."""
    context: Any = eval_frame._TorchDynamoContext
    original = context.__init__

    @functools.wraps(original)
    def init(this: Any, *args: Any, **kwargs: Any) -> None:
        original(this, *args, **kwargs)
        this.enter_exit_hooks.insert(0, enter)

    context.__init__ = init
