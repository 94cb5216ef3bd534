"""The random state that a script starts from in a trial. Its request says which: what one process is forked from inherits one and the same."""

from __future__ import annotations

import importlib
import random
import sys

import torch

from ..exact.process import streams


class RandomStart:
    """The state that the global generators of this process were put into."""

    def __init__(self, number: int) -> None:
        random.seed(number)
        torch.manual_seed(number)
        if "numpy" in sys.modules:  # which seeds its generator by the system when that is first used
            importlib.import_module("numpy.random").seed(number)
        self._streams = dict(streams())

    @property
    def is_left(self) -> bool:
        """Whether the script has drawn from a generator, or has set one."""
        try:
            return dict(streams()) != self._streams
        except Exception:  # the script may leave torch behind in any state
            return True
