"""The lines between us and the child: written before a deadline, kept within bounds until somebody takes them.

What the child says is a hostile script's word at worst: it may stop reading, or never stop talking.
"""

from __future__ import annotations

import json
import os
import queue
import select
from collections import deque
from typing import Any

MAX_WAITING = 256 << 20
"""Bytes of one task's messages that nobody has taken yet."""
WRITE_SECONDS = 60.0
"""How long a child may leave unread what it is told."""
NOTHING_MORE = b"\n"

Message = dict[str, Any]


class Inbox(queue.Queue[bytes]):
    """Lines as they came, since parsed they may take thirty times the memory; bounded by their bytes, not by their number.

    Raises `queue.Full` where the bound is passed.
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
        TimeoutError: the other side has read nothing for `WRITE_SECONDS`; half a line may be written.
        OSError, ValueError: the other side is gone, or the pipe is closed.
    """
    data = memoryview(json.dumps(message).encode() + b"\n")
    room = select.poll()
    room.register(descriptor, select.POLLOUT)
    while data:
        if not room.poll(WRITE_SECONDS * 1000):
            raise TimeoutError(f"nothing was read for {WRITE_SECONDS:.0f} s")
        data = data[os.write(descriptor, data) :]


def parse(line: bytes) -> Message | None:
    """A line from the child, if it is what was agreed: a task's number, and what the task says or how it ended."""
    try:
        message = json.loads(line)
        if b"\\ud" in line.lower():  # half of a surrogate pair, it may be, which nothing behind us can write down
            message = json.loads(json.dumps(message, ensure_ascii=False).encode("utf-8", "replace"))
    except (ValueError, RecursionError):
        return None
    if not isinstance(message, dict) or not isinstance(message.get("id"), int):
        return None
    return message if isinstance(message.get("end", message.get("message")), dict) else None
