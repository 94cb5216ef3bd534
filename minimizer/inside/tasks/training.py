"""A run of a training script: the common begin and end of tasks on its losses and on the errors of its graphs."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext

import torch
import torch._inductor.config

from ..messages import Phase
from ..questions import TrainingRequest
from ..watch.line import end_with
from ..watch.losses import Losses
from ..wire import Channel
from .random_start import RandomStart
from .script_run import what_ends


class Training:
    """The script of a request, ready to run. All runs draw the same random numbers, and build kernels in parallel.

    Args:
        finish: sends the answer; also called after the last step of the request, where the process ends.
        around: creates the context in which each backward runs.
    """

    def __init__(
        self,
        request: TrainingRequest,
        finish: Callable[[], None],
        around: Callable[[], AbstractContextManager[object]] = nullcontext,
    ) -> None:
        torch._inductor.config.fallback_random = True
        torch._inductor.config.compile_threads = max(1, len(os.sched_getaffinity(0)))
        self._request, self._finish, self.start = request, finish, RandomStart(0)
        self.losses = Losses(around, self._end_late)

    def run(self, channel: Channel) -> BaseException | None:
        """Run the script to its end, and return the exception that it raises."""
        channel.send(Phase(phase="loss"))
        return what_ends(self._request.script, self._request.args, self._request.text)

    def _end_late(self, seconds: float, steps: int) -> None:
        if seconds > self._request.seconds or steps >= self._request.steps:
            end_with(self._finish)
