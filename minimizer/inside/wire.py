"""JSON lines over a pair of file descriptors: how the child talks, whatever the user's script prints."""

from __future__ import annotations

import json
import os
import signal
import threading
from dataclasses import dataclass, fields, is_dataclass
from typing import Any, ClassVar

Message = dict[str, Any]
SAMPLE = signal.SIGRTMIN + 8
"""Makes a child write its stacks down, whatever it is doing."""
STOP = signal.SIGRTMIN + 9
"""Makes a survey end where it is, and say what it found."""
FAILED = 70
"""Exit status of a child in which our own code has failed."""


@dataclass
class Said:
    """A message of the child; ``type`` tells the other side which."""

    type: ClassVar[str]


class Channel:
    """One end of a conversation. Messages are single lines of JSON; a line is written by one loop of ``os.write``.

    Threads of a script send in turns. The lock lets its own thread in again: a signal may come while a line is written.
    """

    def __init__(self, incoming: int, outgoing: int) -> None:
        self.incoming, self.outgoing = incoming, outgoing
        self._buffer = b""
        self._sending = threading.RLock()

    def send(self, message: Said | Message) -> None:
        """Write one message; numbers that JSON cannot hold become strings."""
        data = json.dumps(plain(message), allow_nan=False, default=str).encode() + b"\n"
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


def plain(value: Any) -> Any:
    """What JSON can hold: dataclasses as dicts of their fields, infinite numbers and NaN as text."""
    if value is None or isinstance(value, (str, int)):  # as nearly everything that a graph is written down with
        return value
    if isinstance(value, float):
        return value if value == value and abs(value) != float("inf") else str(value)
    if is_dataclass(value):
        kind = {"type": value.type} if isinstance(value, Said) else {}
        return kind | {field.name: plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    return value
