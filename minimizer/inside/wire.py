"""JSON lines over a pair of file descriptors: how the child talks, whatever the user's script prints."""

from __future__ import annotations

import json
import os
import signal
import threading
from typing import Any

Message = dict[str, Any]
SAMPLE = signal.SIGRTMIN + 8
"""Makes a child write its stacks down, whatever it is doing."""
STOP = signal.SIGRTMIN + 9
"""Makes a survey end where it is, and say what it found."""
FAILED = 70
"""Exit status of a child in which our own code has failed."""


class Channel:
    """One end of a conversation. Messages are single lines of JSON; a line is written by one loop of ``os.write``.

    Threads of a script send in turns. The lock lets its own thread in again: a signal may come while a line is written.
    """

    def __init__(self, incoming: int, outgoing: int) -> None:
        self.incoming, self.outgoing = incoming, outgoing
        self._buffer = b""
        self._sending = threading.RLock()

    def send(self, message: Message) -> None:
        """Write one message; numbers that JSON cannot hold become strings."""
        data = json.dumps(_finite(message), allow_nan=False, default=str).encode() + b"\n"
        with self._sending:
            while data:
                data = data[os.write(self.outgoing, data) :]

    def receive(self) -> Message | None:
        """The next message, or None when the other end is gone."""
        while b"\n" not in self._buffer:
            chunk = os.read(self.incoming, 1 << 16)
            if not chunk:
                return None
            self._buffer += chunk
        line, _, self._buffer = self._buffer.partition(b"\n")
        return dict(json.loads(line))


def _finite(value: Any) -> Any:
    if isinstance(value, float):
        return value if value == value and abs(value) != float("inf") else str(value)
    if isinstance(value, dict):
        return {str(key): _finite(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(item) for item in value]
    return value
