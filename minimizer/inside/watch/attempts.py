"""Whether Dynamo was ever given a frame to compile: without that the compiler is to blame for nothing, whatever a script says.

An attempt counts from its first moment: one that ends in an error of Dynamo's, or in no graph, is one.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from torch._dynamo import convert_frame

ENTRIES = ("_compile", "compile_frame")
"""Where frames come in that Dynamo does not skip: those that are called, and those that are only captured."""


class Attempts:
    """Watches this process from now on; ``on_first`` is called at the first attempt, before Dynamo looks at the frame."""

    def __init__(self, on_first: Callable[[], None]) -> None:
        self._on_first = on_first
        self.any = False
        for name in ENTRIES:
            if hasattr(convert_frame, name):
                setattr(convert_frame, name, self._watched(getattr(convert_frame, name)))

    def _watched(self, original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def attempt(*args: Any, **kwargs: Any) -> Any:
            if not self.any:
                self.any = True
                self._on_first()
            return original(*args, **kwargs)

        return attempt
