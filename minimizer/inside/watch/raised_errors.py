"""The exceptions that calls of torch raise while a script runs, also those that it catches."""

from __future__ import annotations

from typing import Any

from torch.overrides import TorchFunctionMode

from ..failures import ExceptionInfo, describe

MOST = 50
"""How many are kept."""


class Raised(TorchFunctionMode):
    """Read ``seen`` afterwards: descriptions, in the order in which they were raised."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[ExceptionInfo] = []

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        try:
            return func(*args, **(kwargs or {}))
        except Exception as error:
            if len(self.seen) < MOST:
                self.seen.append(describe(error))
            raise
