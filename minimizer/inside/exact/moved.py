"""Changes the environment of an eager run, so that whatever depends on the machine, or on when objects die, differs.

Other addresses, more memory in use, other garbage, events in an active profiler, calls as slow as the compiled ones,
and objects that live longer, like those that the compiler holds. None of it changes anything that an eager run may rely
on.
"""

from __future__ import annotations

import gc
import random
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

import torch

from .reach import locals_of, user_frames

LONGEST_DELAY = 5.0
"""Most seconds by which an eager call is delayed to be as slow as the compiled one."""
MOST_HELD = 20_000
"""Most objects to hold."""
LARGEST_HELD = 1 << 20
"""Bytes of the largest tensor to hold."""
MOST_RESIDENT = 1 << 30
"""Most bytes to allocate to match the memory of the compiled run."""
EVENT = "moved"
"""Name of the events added to the profiler."""


class Moved:
    """Disturbs the environment from `begin` on, before each call, until `release`.

    Args:
        is_own: whether a file is the script's own.
        delays: seconds to wait before each call.
        resident: bytes to use in addition to the script's needs.
    """

    def __init__(self, *, is_own: Callable[[str], bool], delays: Sequence[float], resident: int) -> None:
        self._is_own, self._delays = is_own, delays
        self._held: list[Any] = []
        self._resident = min(resident, MOST_RESIDENT)
        self._ballast: list[Any] = []

    def begin(self) -> None:
        """Change the addresses of all objects that the script creates from here on, and use as much memory as the
        compiled run.

        Call it last before the script's own code, after all garbage is freed: memory freed later would be reused by the
        next object of the same size in every run alike.
        """
        gc.collect()
        sizes = random.Random(time.monotonic_ns())
        self._ballast += [bytearray(sizes.randrange(1, 512)) for _ in range(100_000)]
        self._ballast += [[None] * sizes.randrange(8) for _ in range(50_000)]
        self._ballast.append(bytearray(b"\1") * self._resident)

    def before(self, call: int) -> None:
        """Disturb the environment before a call, by its number from 1."""
        if call <= len(self._delays):
            time.sleep(min(self._delays[call - 1], LONGEST_DELAY))
        self._ballast.append(bytearray(1000))
        if torch.cuda.is_initialized():
            self._ballast.append(torch.empty(1 << 12, device="cuda"))
        garbage: list[Any] = [[]]
        garbage[0].append(garbage)
        with torch.profiler.record_function(EVENT):
            torch.empty(1)
        for frame in user_frames(sys._getframe(1), self._is_own):
            self._hold(locals_of(frame).values())
        wrapper = sys._getframe(1)
        for _ in range(4):
            if wrapper.f_code.co_name in ("compile_wrapper", "_fn") or wrapper.f_back is None:
                break
            wrapper = wrapper.f_back
        held = locals_of(wrapper)
        self._hold(held.get("args", ()))

    def release(self) -> None:
        """Release everything held: what then survives is the script's own."""
        self._held.clear()

    def _hold(self, values: Any) -> None:
        for value in values:
            is_large = isinstance(value, torch.Tensor) and value.numel() * value.element_size() > LARGEST_HELD
            if len(self._held) < MOST_HELD and not is_large:
                self._held.append(value)
