"""The initial random state of a script in a trial, chosen by its request: forks of one process would all inherit the
same.
"""

from __future__ import annotations

import importlib
import random
import sys

import torch

from ..exact.process import streams


class RandomStart:
    """The state that the global generators of this process were set to."""

    def __init__(self, number: int) -> None:
        random.seed(number)
        torch.manual_seed(number)
        if "numpy" in sys.modules:  # NumPy seeds its generator from the system on first use
            importlib.import_module("numpy.random").seed(number)
        self._streams = dict(streams())

    @property
    def is_left(self) -> bool:
        """Whether the script has drawn from a generator, or has set one."""
        try:
            return dict(streams()) != self._streams
        except Exception:  # the script may leave torch in any state
            return True
