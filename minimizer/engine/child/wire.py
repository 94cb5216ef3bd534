"""The line protocol of the pipe to the child: writes with a deadline, and a bounded inbox.

The other side may be hostile: it may stop reading, or never stop writing.
"""

from __future__ import annotations

import json
import os
import queue
import select
from collections import deque
from typing import Any

from minimizer.engine.budget.patience import CHILD_WRITE_SECONDS

MAX_WAITING = 256 << 20
"""Most bytes of one task's unread messages."""
MOST_CONTAINERS = 4 << 20
"""Most lists and objects of one message.

Nothing else runs while they are made, about a microsecond and 64 bytes each. The largest accepted graph has half a
million.
"""
NOTHING_MORE = b"\n"

Message = dict[str, Any]


class Inbox(queue.Queue[bytes]):
    """A queue of raw lines, bounded by bytes, not by their number; parsed, they may take thirty times the memory.

    ``put`` without blocking raises `queue.Full` at the bound.
    """

    def __init__(self) -> None:
        super().__init__(MAX_WAITING)

    def _init(self, maxsize: int) -> None:
        self._lines: deque[bytes] = deque()
        self._bytes = 0

    def _qsize(self) -> int:
        return self._bytes

    def _put(self, item: bytes) -> None:
        self._lines.append(item)
        self._bytes += len(item)

    def _get(self) -> bytes:
        item = self._lines.popleft()
        self._bytes -= len(item)
        return item


def write(descriptor: int, message: Message) -> None:
    """Write one line into a pipe that does not block.

    Raises:
        TimeoutError: the other side has read nothing for `CHILD_WRITE_SECONDS`; half a line may be written.
        OSError, ValueError: the other side is gone, or the pipe is closed.
    """
    data = memoryview(json.dumps(message).encode() + b"\n")
    room = select.poll()
    room.register(descriptor, select.POLLOUT)
    while data:
        if not room.poll(CHILD_WRITE_SECONDS * 1000):
            raise TimeoutError(f"nothing was read for {CHILD_WRITE_SECONDS:.0f} s")
        data = data[os.write(descriptor, data) :]


def parse(line: bytes) -> Message | None:
    """A line from the child: a task's number with its message or its end; None if it is malformed."""
    if line.count(b"[") + line.count(b"{") > MOST_CONTAINERS:
        return None
    try:
        message = json.loads(line)
        if b"\\ud" in line.lower():  # it may hold a lone surrogate, which later steps could not encode
            message = json.loads(json.dumps(message, ensure_ascii=False).encode("utf-8", "replace"))
    except (ValueError, RecursionError):
        return None
    if not isinstance(message, dict) or not isinstance(message.get("id"), int):
        return None
    return message if isinstance(message.get("end", message.get("message")), dict) else None
