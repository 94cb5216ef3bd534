"""Watches a job's memory, disk use and time in a separate thread, and kills its processes if they exceed a limit."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from types import TracebackType

from minimizer.engine.child.scratch_disk import Scratch
from minimizer.errors import MinimizerError, WorkerTrouble
from minimizer.sandbox import Sandbox

log = logging.getLogger(__name__)

LOOK_SECONDS = 0.2
"""Seconds between two checks: a disk writes some hundred MiB in that time, less than a job must leave free."""


class Warden:
    """A thread that checks every `LOOK_SECONDS`, from the beginning of the block to its end.

    The job's next call of `watch` raises what the thread found. ``over``: the exception for a job past its budget, None
    before that.
    """

    def __init__(
        self, sandbox: Sandbox, scratch: Scratch, over: Callable[[], MinimizerError | None] = lambda: None
    ) -> None:
        self._sandbox, self._scratch, self._budget_over = sandbox, scratch, over
        self._over = threading.Event()
        self._looking = threading.Lock()
        self._found: MinimizerError | None = None
        self._thread = threading.Thread(target=self._run, name="warden", daemon=True)

    def __enter__(self) -> Warden:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        self._thread.join()

    def watch(self) -> None:
        """Check now.

        Raises:
            BudgetExceeded, MemoryExceeded, DiskExceeded: the job exceeds a limit, or did so before.
            WorkerTrouble: the disk or the memory is full, and not because of the job; or the check failed.
        """
        with self._looking:
            if self._found is None:
                self._look()
            if self._found is not None:
                raise type(self._found)(*self._found.args)

    def _run(self) -> None:
        while not self._over.wait(LOOK_SECONDS):
            with self._looking:
                if self._found is None:
                    self._look()

    def _look(self) -> None:
        try:
            self._sandbox.watch()
            self._scratch.watch(self._sandbox.end)
            if (over := self._budget_over()) is not None:
                self._sandbox.end()
                raise over
        except MinimizerError as error:
            self._found = error
        except Exception as error:  # an unwatched job must not go on
            log.exception("the watch over a job's memory and disk failed")
            self._sandbox.end()
            self._found = WorkerTrouble(f"the watch over the job's memory and disk failed: {error!r}")
