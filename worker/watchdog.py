"""Ends this process if a job does not return: no signal, exception or lease does, if the engine never polls."""

from __future__ import annotations

import contextvars
import faulthandler
import logging
import os
import threading
import time
from collections.abc import Callable
from types import TracebackType

log = logging.getLogger(__name__)

GRACE_SECONDS = 600.0
"""Seconds beyond its budget, which the engine keeps to a few seconds; a swapping machine, or a hanging disk, delays it
longer.
"""
SILENT_SECONDS = 60.0
"""From one look of the engine at a job that is not wanted any more to the next; it may wait half as long for a GPU to be free."""
STATUS = os.EX_SOFTWARE
_LOOK_SECONDS = 0.5
_DEAF_SECONDS = 30.0
_STDERR = 2


class Watchdog:
    """Watches one job, from the beginning to the end of a ``with`` block.

    Ending the process is the same for the service as a `kill -9`: the sandboxed child dies with it, the lease runs out,
    and a reaper puts the job back in the queue, or closes it if it was cancelled or is out of attempts.

    Args:
        budget: of the job, in seconds.
        is_unwanted: whether the job was cancelled, or belongs to another worker.
    """

    def __init__(self, job_id: str, budget: float, is_unwanted: Callable[[], bool]) -> None:
        self._job_id = job_id
        self._budget = budget
        self._is_unwanted = is_unwanted
        self._asked = time.monotonic()
        self._latest = self._asked + budget + GRACE_SECONDS
        self._over = threading.Event()
        context = contextvars.copy_context()
        self._thread = threading.Thread(target=lambda: context.run(self._run), name=f"watchdog-{job_id}", daemon=True)

    def __enter__(self) -> Watchdog:
        self._thread.start()
        # The thread cannot run while something in C keeps the interpreter to itself; this timer of C's own can.
        left = self._latest - time.monotonic()
        faulthandler.dump_traceback_later(left + _DEAF_SECONDS, exit=True, file=_STDERR)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        faulthandler.cancel_dump_traceback_later()
        self._over.set()
        self._thread.join()

    def asked(self) -> None:
        """The engine has looked whether the job is still wanted."""
        self._asked = time.monotonic()

    def why(self) -> str:
        """The problem with the job; empty while there is none."""
        now = time.monotonic()
        if now > self._latest:
            return f"it is not over {GRACE_SECONDS:g} s after its budget of {self._budget:g} s"
        if not self._is_unwanted():
            self._asked = now  # there is nothing to come back from yet
        elif now - self._asked > SILENT_SECONDS:
            return f"it is not wanted any more, and has not looked up for {SILENT_SECONDS:g} s"
        return ""

    def _run(self) -> None:
        while not self._over.wait(_LOOK_SECONDS):
            if why := self.why():
                log.critical(
                    "job %s holds this worker: %s. The worker ends, and the reaper has the job", self._job_id, why
                )
                faulthandler.dump_traceback(file=_STDERR)
                os._exit(STATUS)
