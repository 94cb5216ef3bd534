"""Moves the machine under an eager run: what a script makes of the machine, and of when objects go, then differs from the run before.

Other addresses, more memory in use, other garbage, events in the profiler that runs, calls as long as the compiled ones, and objects
that live longer, as what the compiler holds does. Nothing of it changes what an eager run may rely on.
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
"""Seconds; the most that an eager call is delayed to last as long as the compiled one did."""
MOST_HELD = 20_000
"""Most objects that are held."""
LARGEST_HELD = 1 << 20
"""Bytes of the largest tensor that is held."""
MOST_RESIDENT = 1 << 30
"""Bytes; the most that is allocated to have as much memory in use as the compiled run had."""
EVENT = "moved"
"""Name of the events that the profiler sees."""


class Moved:
    """Disturbs the machine from `begin` on, before each call, until `release`.

    Args:
        is_own: whether a file is the script's own.
        delays: seconds to wait before each call.
        resident: bytes to have in use beside what the script needs.
    """

    def __init__(self, *, is_own: Callable[[str], bool], delays: Sequence[float], resident: int) -> None:
        self._is_own, self._delays = is_own, delays
        self._held: list[Any] = []
        self._resident = min(resident, MOST_RESIDENT)
        self._ballast: list[Any] = []

    def begin(self) -> None:
        """Give all that the script makes from here on other addresses, and take as much memory as the compiled run had.

        It must come last before the script's own code, and after all garbage: what is let go of after it leaves a place that the next
        object of the same size gets in every run alike.
        """
        gc.collect()
        sizes = random.Random(time.monotonic_ns())
        self._ballast += [bytearray(sizes.randrange(1, 512)) for _ in range(100_000)]
        self._ballast += [[None] * sizes.randrange(8) for _ in range(50_000)]
        self._ballast.append(bytearray(b"\1") * self._resident)

    def before(self, call: int) -> None:
        """Disturb the machine before a call, by its number from 1."""
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
        """Let go of what was held: what then is left of it is the script's own doing."""
        self._held.clear()

    def _hold(self, values: Any) -> None:
        for value in values:
            is_large = isinstance(value, torch.Tensor) and value.numel() * value.element_size() > LARGEST_HELD
            if len(self._held) < MOST_HELD and not is_large:
                self._held.append(value)
