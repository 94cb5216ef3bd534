"""The survey's end of the pipe: phases, so that a crash or a hang can be attributed, and the message that ends the process."""

from __future__ import annotations

import contextlib
import os
import sys
import threading
import traceback
from collections.abc import Callable
from typing import NoReturn

from ..messages import Phase
from ..wire import FAILED, Channel
from .captured import CapturedGraph
from .coverage import Coverage


class Line:
    """Sends the survey's messages, from any thread of the script; the thread of the last message keeps the lock for
    good.
    """

    def __init__(self, channel: Channel, coverage: Coverage) -> None:
        self.channel, self._coverage = channel, coverage
        self.doing = "script"
        """The current phase; see `Phase.doing`."""
        self._turn = threading.RLock()

    def phase(self, doing: str, graph: CapturedGraph, call: int | None) -> None:
        """Report the phase that begins now, with the counts so far."""
        self.doing = doing
        self._say(
            Phase(
                doing,
                graph=graph.index,
                call=call,
                eager_seconds=graph.eager_seconds,
                trusted=self._coverage.is_trusted,
                checked=self._coverage.counts(),
            )
        )

    def attempted(self, attempted: bool) -> None:
        """Report whether Dynamo has tried a frame: a death of the process before that is not the compiler's fault."""
        self._say(Phase(self.doing, attempted=attempted))

    def take_last_word(self) -> None:
        """Lock out all other threads for good: only the calling thread can send messages or end the process."""
        self._turn.acquire()

    def _say(self, phase: Phase) -> None:
        with self._turn:
            self.channel.send(phase)


def end_with(last: Callable[[], None]) -> NoReturn:
    """Call ``last`` and end the process, even if it raises: the user's script may catch any exception, and must not continue."""
    status = FAILED
    try:
        last()
        status = 0
    except BaseException:  # our own
        traceback.print_exc()
    finally:
        with contextlib.suppress(Exception):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(status)
