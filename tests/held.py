"""Clients that hold connections open and ask for nothing to the end: half-open, slow, and idle after an answer."""

from __future__ import annotations

import select
import socket
from contextlib import ExitStack, suppress
from types import TracebackType

_BEGINNINGS = {
    "silent": b"",
    "half a header": b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Half: ",
    "slow header": b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Slow: ",
    "slow body": b"POST /api/v1/jobs HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
    b'Content-Length: 100000\r\n\r\n{"script": "',
    "idle": b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
}
_SLOW = ("slow header", "slow body")


class Held:
    """Connections of all five kinds in turn, held as long as the block runs."""

    def __init__(self, host: str, port: int, count: int) -> None:
        self._address = (host, port)
        self._kinds = [list(_BEGINNINGS)[number % len(_BEGINNINGS)] for number in range(count)]
        self._sockets: list[socket.socket] = []
        self._opened = ExitStack()

    def __enter__(self) -> Held:
        with ExitStack() as opened:
            for kind in self._kinds:
                connection = opened.enter_context(socket.create_connection(self._address, timeout=60))
                self._sockets.append(connection)
                connection.sendall(_BEGINNINGS[kind])
            for kind, connection in zip(self._kinds, self._sockets, strict=True):
                if kind == "idle":
                    _read_answer(connection)
            self._opened = opened.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._opened.close()

    def open(self) -> int:
        """How many of them the server has neither answered nor closed."""
        watch = select.poll()
        for connection in self._sockets:
            watch.register(connection, select.POLLIN)
        return len(self._sockets) - len(watch.poll(0))

    def trickle(self) -> None:
        """Let each of the slow ones send a byte."""
        for kind, connection in zip(self._kinds, self._sockets, strict=True):
            if kind in _SLOW:
                with suppress(OSError):  # the server has had enough of it
                    connection.sendall(b"x")


def _read_answer(connection: socket.socket) -> None:
    answer = b""
    while not answer.endswith(b"}\n"):
        piece = connection.recv(1 << 16)
        if not piece:
            raise ConnectionError(f"closed after {answer!r}")
        answer += piece
