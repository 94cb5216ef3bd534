"""What a survey says while it runs: phases, so that a crash or a hang can be attributed, and one last word."""

from __future__ import annotations

import threading
from typing import Any

from ..wire import Channel, Message
from .captured import CapturedGraph
from .coverage import Coverage


class Line:
    """The survey's end of the pipe. Threads of the script may come to speak at once; the one with the last word keeps it."""

    def __init__(self, channel: Channel, coverage: Coverage) -> None:
        self.channel, self._coverage = channel, coverage
        self.doing = "script"
        """What the process does: ``compile``, ``run`` (compiled code), ``backward`` (its gradients), ``compare`` (our own work) or
        ``script``."""
        self._turn = threading.RLock()

    def phase(self, doing: str, graph: CapturedGraph, call: int | None) -> None:
        """Say what comes next, and how much was seen until now."""
        self.doing = doing
        seen = {**self._coverage.counts(), "trusted": self._coverage.is_trusted}
        self._say(graph=graph.index, call=call, eager_seconds=graph.eager_seconds, **seen)

    def attempted(self, attempted: bool) -> None:
        """Say whether Dynamo has tried a frame, so that what ends the process before that is not laid at its door."""
        self._say(attempted=attempted)

    def take_last_word(self) -> None:
        """From now on only the calling thread can speak: no other ends the process or says more."""
        self._turn.acquire()

    def _say(self, **fields: Any) -> None:
        message: Message = {"type": "phase", "doing": self.doing, **fields}
        with self._turn:
            self.channel.send(message)
