"""Detects whether Dynamo ever got a frame. If not, the compiler cannot be at fault (verdict `nothing_compiled`).

An attempt counts from the moment Dynamo is called, even if it ends in a Dynamo error or captures no graph.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from torch._dynamo import convert_frame

from ..hooks import required

ENTRIES = ("_compile", "compile_frame")
"""Functions of `convert_frame` that receive every frame Dynamo does not skip: called frames, and frames only captured.
"""


class Attempts:
    """Wraps Dynamo's entry points for the rest of this process; calls ``on_first`` once, before Dynamo sees the first frame.

    Raises:
        MissingHook: this torch has no such entry point.
    """

    def __init__(self, on_first: Callable[[], None]) -> None:
        self._on_first = on_first
        self.any = False
        for name, original in {name: required(convert_frame, name) for name in ENTRIES}.items():
            setattr(convert_frame, name, self._watched(original))

    def _watched(self, original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def attempt(*args: Any, **kwargs: Any) -> Any:
            if not self.any:
                self.any = True
                self._on_first()
            return original(*args, **kwargs)

        return attempt
