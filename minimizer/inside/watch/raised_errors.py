"""Records exceptions raised by torch calls while a script runs, including those that the script catches."""

from __future__ import annotations

from typing import Any

from torch.overrides import TorchFunctionMode

from ..failures import ExceptionInfo, describe

MOST = 50
"""Most exceptions to keep; a script may catch thousands."""


class Raised(TorchFunctionMode):
    """Records exceptions while it is active. ``seen`` holds their descriptions, in the order in which they were raised."""

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
