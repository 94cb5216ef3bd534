"""JSON lines over a pair of file descriptors, separate from standard output, where the user's script may print anything."""

from __future__ import annotations

import json
import os
import signal
import threading
from dataclasses import dataclass, fields, is_dataclass
from typing import Any, ClassVar

Message = dict[str, Any]
SAMPLE = signal.SIGRTMIN + 8
"""Signal that makes a child write the stacks of its threads to a file, also during a hang."""
STOP = signal.SIGRTMIN + 9
"""Signal that makes a survey end early and report its findings."""
FAILED = 70
"""Exit status of a child whose own (our) code failed; EX_SOFTWARE of sysexits.h."""


@dataclass
class Said:
    """Base of the child's messages; ``type`` names the message on the wire."""

    type: ClassVar[str]


class Channel:
    """One end of the pipe pair. A message is one line of JSON, written by one loop of ``os.write``.

    A lock keeps the lines of several threads apart. It is reentrant, since a signal handler may send while its thread is sending.
    """

    def __init__(self, incoming: int, outgoing: int) -> None:
        self.incoming, self.outgoing = incoming, outgoing
        self._buffer = b""
        self._sending = threading.RLock()

    def send(self, message: Said | Message) -> None:
        """Write one message; NaN and infinities become strings."""
        data = json.dumps(plain(message), allow_nan=False, default=str).encode() + b"\n"
        with self._sending:
            while data:
                data = data[os.write(self.outgoing, data) :]

    def receive(self) -> Message | None:
        """Wait for the next message; None if the other end has closed its pipe."""
        while b"\n" not in self._buffer:
            chunk = os.read(self.incoming, 1 << 16)
            if not chunk:
                return None
            self._buffer += chunk
        line, _, self._buffer = self._buffer.partition(b"\n")
        return dict(json.loads(line))


def plain(value: Any) -> Any:
    """Convert a value to plain JSON types: dataclasses to dicts of their fields, infinities and NaN to text."""
    if value is None or isinstance(value, (str, int)):  # first, since nearly all values of a graph have these types
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
