"""A worker's knowledge of its machine's fitness, checked before it claims a job."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from pathlib import Path

from minimizer.fitness import needs_sandbox, why_unfit
from minimizer.sandbox import Gpu
from minimizer.settings import Settings
from worker.gpu import why_gone

LOOK_SECONDS = 5.0
"""How long an answer holds."""
ANSWER_SECONDS = 30.0
"""Most seconds to wait for a check; half of the silence after which a worker counts as gone, so that it can still
report.
"""


class Fitness:
    """The problems of this machine, checked again at most every few seconds."""

    def __init__(self, look: Callable[[], str]) -> None:
        self._look = look
        self._choosing = threading.Lock()
        self._latest: _Look | None = None

    @classmethod
    def of(cls, settings: Settings, gpus: Sequence[Gpu] = ()) -> Fitness:
        """Of a worker with these settings, which started with these GPUs."""
        interpreters = (Path(sys.executable), *settings.interpreters.values())
        sandboxed = needs_sandbox(settings)
        return cls(lambda: why_unfit(interpreters, sandboxed=sandboxed) or why_gone(gpus))

    def trouble(self) -> str:
        """The problem, as a sentence for the operator; empty without one. Returns within `ANSWER_SECONDS`."""
        with self._choosing:
            if self._latest is None or self._latest.is_old:
                self._latest = _Look(self._look)
            look = self._latest
        return look.trouble()


class _Look:
    """One check of the machine, in a separate thread: a hanging disk or program must not hang the caller."""

    def __init__(self, look: Callable[[], str]) -> None:
        self._answer: Future[str] = Future()
        self._late_at = time.monotonic() + ANSWER_SECONDS
        self._ended = float("inf")
        threading.Thread(target=self._run, args=[look], name="fitness", daemon=True).start()

    @property
    def is_old(self) -> bool:
        """Whether it ended too long ago. A running check never is: no second one should hang with it."""
        return time.monotonic() - self._ended >= LOOK_SECONDS

    def trouble(self) -> str:
        try:
            return self._answer.result(max(0.0, self._late_at - time.monotonic()))
        except TimeoutError:
            return f"this machine does not answer within {ANSWER_SECONDS:g} s: its disk, sandbox, GPU or an interpreter hangs"

    def _run(self, look: Callable[[], str]) -> None:
        try:
            answer = look()
        except Exception as error:
            answer = f"this machine cannot be looked at: {error}"
        self._ended = time.monotonic()
        self._answer.set_result(answer)
