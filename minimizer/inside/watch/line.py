"""What a survey says while it runs: phases, so that a crash or a hang can be attributed, and one last word."""

from __future__ import annotations

import threading

from ..messages import Phase
from ..wire import Channel
from .captured import CapturedGraph
from .coverage import Coverage


class Line:
    """The survey's end of the pipe. Threads of the script may come to speak at once; the one with the last word keeps it."""

    def __init__(self, channel: Channel, coverage: Coverage) -> None:
        self.channel, self._coverage = channel, coverage
        self.doing = "script"
        """What the process does; see `Phase`."""
        self._turn = threading.RLock()

    def phase(self, doing: str, graph: CapturedGraph, call: int | None) -> None:
        """Say what comes next, and how much was seen until now."""
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
        """Say whether Dynamo has tried a frame, so that what ends the process before that is not laid at its door."""
        self._say(Phase(self.doing, attempted=attempted))

    def take_last_word(self) -> None:
        """From now on only the calling thread can speak: no other ends the process or says more."""
        self._turn.acquire()

    def _say(self, phase: Phase) -> None:
        with self._turn:
            self.channel.send(phase)
