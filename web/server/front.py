"""The front of the application: limits on connections, on idle time, and on stored bodies.

waitress reads a whole request before a thread works on it, so a slow or silent client costs an open file and no thread.
Its own limits are not enough: they count every byte as activity, close nothing that a client does not read, and limit
each body but not their sum.
"""

from __future__ import annotations

import logging
import resource
import socket
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

from flask import Flask
from waitress import wasyncore
from waitress.buffers import OverflowableBuffer
from waitress.channel import HTTPChannel
from waitress.parser import HTTPRequestParser
from waitress.server import create_server
from waitress.task import ThreadedTaskDispatcher
from waitress.utilities import Error

from minimizer.settings import Settings
from web.problems import DISK_FULL, MEDIA_TYPE, NO_ROOM, ProblemBody, has_no_room

log = logging.getLogger(__name__)

CONNECTIONS = 1000
"""Open at once; further clients wait in the kernel's queue for one of these to end."""
IDLE_SECONDS = 20
"""Seconds without traffic after which a connection is closed.

Also without progress of its request or answer by a piece.
"""
_PIECE_BYTES = 64 << 10
_HEADER_BYTES = 32 << 10
_BODY_BYTES_IN_ALL = 256 << 20
"""Most bytes stored of the bodies of all requests together, from any client: a request is authenticated only once
complete.
"""
_BODY_BYTES_IN_MEMORY = 64 << 10
"""Most bytes of one body in memory; a longer one is stored in a file."""
_REFUSED_BYTES = 256 << 20
"""Of a body that is too large: read and thrown away, since a client that is still sending does not hear the refusal."""
_ROUND_SECONDS = 1
_FILES_OF_OUR_OWN = 200
_FEWEST_CONNECTIONS = 100
_FILES_A_CONNECTION = 3
"""Its socket, a body that it sends, and an answer that it does not take."""


class Front:
    """The sockets, threads and connections of one web process. Nothing is served outside of `turn`."""

    def __init__(self, app: Flask, settings: Settings, sockets: Sequence[socket.socket], threads: int) -> None:
        self._service = app.extensions["minimizer"]
        self._threads = ThreadedTaskDispatcher()
        self._threads.set_thread_count(threads)
        self._map: dict[int, Any] = {}
        largest = app.config["MAX_CONTENT_LENGTH"]
        create_server(
            app,
            map=self._map,
            sockets=sockets,
            connection_limit=_connection_limit(),
            max_request_header_size=_HEADER_BYTES,
            max_request_body_size=largest + _REFUSED_BYTES,
            recv_bytes=_PIECE_BYTES,
            # We close idle connections ourselves (`_Channel`).
            channel_timeout=10 * IDLE_SECONDS,
            ident=None,
            # The application judges them (`web.factory`); what waitress takes away would not even reach it.
            clear_untrusted_proxy_headers=not settings.trusted_proxies,
            _dispatcher=self._threads,
        )
        self._servers = [one for one in self._map.values() if hasattr(one, "channel_class")]
        for server in self._servers:
            server.channel_class = partial(_Channel, largest_body=largest)

    def turn(self) -> None:
        """Serve whatever has come; back within a second."""
        # poll() and not select(), which knows no file descriptor beyond 1023.
        wasyncore.loop(timeout=_ROUND_SECONDS, use_poll=True, map=self._map, count=1)

    def close(self, patience: float) -> None:
        """End event streams and long polls, let short requests complete, and stop the threads."""
        for server in self._servers:
            server.accepting = False
        self._service.close()
        deadline = time.monotonic() + patience
        while any(channel.is_busy for channel in _channels(self._map)) and time.monotonic() < deadline:
            self.turn()
        self._threads.shutdown(timeout=_ROUND_SECONDS)
        wasyncore.close_all(self._map)


class _Channel(HTTPChannel):  # type: ignore[misc]  # waitress has no types
    """A connection."""

    last_activity: float
    total_outbufs_len: int

    def __init__(self, *arguments: Any, largest_body: int, **options: Any) -> None:
        self.parser_class = partial(_Request, largest_body=largest_body)
        self._sent = 0
        super().__init__(*arguments, **options)

    @property
    def is_busy(self) -> bool:
        """Whether a request is worked on, or its answer not sent yet."""
        return bool(self.requests or self.total_outbufs_len)

    @property
    def kept(self) -> int:
        """Bytes of bodies."""
        return sum(request.kept for request in (self.request, *self.requests) if request is not None)

    def readable(self) -> bool:
        """Called for every connection in every round, and so the place to close idle ones.

        Without waiting until the socket is writable, as waitress does: a client that reads nothing never makes it so.
        """
        # A request in progress is not idle, but an unread answer occupies a thread.
        may_wait = self.requests and not self.total_outbufs_len
        if not may_wait and time.time() - self.last_activity > IDLE_SECONDS:
            self.handle_close()
            return False
        return bool(super().readable())

    def handle_read(self) -> None:
        """Read; of a request that is under way only whole pieces count as activity, or a byte now and then would hold it."""
        request, before, pieces = self.request, self.last_activity, self._pieces()
        super().handle_read()
        if request is None or self.request is not request:
            return  # one has begun, or has ended
        if self._pieces() == pieces:
            self.last_activity = before
        elif sum(channel.kept for channel in _channels(self._map)) > _body_bytes_in_all(request.largest_body):
            request.refuse()

    def write_soon(self, data: Any) -> int:
        """Send, or keep what the client does not accept yet. Its time limit begins now, however long the answer took."""
        if not self.total_outbufs_len:
            self.last_activity = time.time()
        return int(super().write_soon(data))

    def _flush_some(self, do_close: bool = True) -> bool:
        """Send; of an answer that is not taken as a whole only whole pieces count as activity, as in `handle_read`."""
        before, left, pieces = self.last_activity, self.total_outbufs_len, self._sent // _PIECE_BYTES
        flushed = bool(super()._flush_some(do_close))
        self._sent += left - self.total_outbufs_len
        if self.total_outbufs_len and self._sent // _PIECE_BYTES == pieces:
            self.last_activity = before
        return flushed

    def _pieces(self) -> int:
        received = 0 if self.request is None else self.request.header_bytes_received + self.request.body_bytes_received
        return int(received // _PIECE_BYTES)


class _Request(HTTPRequestParser):  # type: ignore[misc]
    """An incoming request. The part of its body that the application does not accept is counted, and not stored."""

    def __init__(self, adj: Any, *, largest_body: int) -> None:
        super().__init__(adj)
        self.largest_body = largest_body

    def parse_header(self, header_plus: bytes) -> None:
        super().parse_header(header_plus)
        if self.body_rcv is not None:
            self.body_rcv.buf = _Body(
                0 if self.content_length > self.largest_body else self.largest_body, self._cannot_be_kept
            )

    @property
    def kept(self) -> int:
        """Bytes of its body."""
        return 0 if self.body_rcv is None else int(self.body_rcv.buf.kept)

    def refuse(self) -> None:
        """Discard the received and all coming data, and then answer that there is no room."""
        self.error = _NoRoom(
            self.path, "unavailable", "Others are sending large requests at the moment. Try again soon.", 5
        )
        self.body_rcv.buf.drop()

    def _cannot_be_kept(self, error: OSError) -> None:
        log.error("a request cannot be taken in: %s", error)
        if has_no_room(error):
            self.error = _NoRoom(self.path, DISK_FULL, NO_ROOM, 30)
        else:
            self.error = _NoRoom(
                self.path, "unavailable", "Nothing large can be taken in at the moment. Try again soon.", 5
            )


class _Body(OverflowableBuffer):  # type: ignore[misc]
    """A body of limited size; of a larger one only the length is kept, by which the application refuses it."""

    def __init__(self, largest: int, on_error: Callable[[OSError], None]) -> None:
        super().__init__(_BODY_BYTES_IN_MEMORY)
        self._largest = largest
        self._on_error = on_error
        self._received = 0

    def __len__(self) -> int:
        return self._received

    @property
    def kept(self) -> int:
        return int(super().__len__())

    def append(self, piece: bytes) -> None:
        self._received += len(piece)
        if self._received > self._largest:
            self.drop()
            return
        try:
            super().append(piece)
        except OSError as error:
            self.drop()
            self._on_error(error)

    def drop(self) -> None:
        """Keep nothing of it, now or later."""
        with suppress(OSError):  # a full disk has no room for unwritten data, either
            self.close()
        self.buf, self.strbuf, self._largest = None, b"", -1


class _NoRoom(Error):  # type: ignore[misc]
    """The answer to a body for which there is no room."""

    code = 503
    reason = "Service Unavailable"

    def __init__(self, path: str, slug: str, detail: str, retry_after: int) -> None:
        super().__init__(detail)
        self._path, self._slug, self._retry_after = path, slug, retry_after

    def to_response(self, ident: str | None = None) -> tuple[str, list[tuple[str, str]], bytes]:
        problem = ProblemBody(
            type=f"urn:minimizer:problem:{self._slug}",
            title=self.reason,
            status=self.code,
            detail=self.body,
            instance=self._path,
            request_id="-",
        )
        retry_after = ("Retry-After", str(self._retry_after))
        headers = [("Content-Type", MEDIA_TYPE), retry_after, ("Cache-Control", "no-store")]
        return f"{self.code} {self.reason}", headers, problem.model_dump_json().encode()


def _channels(map_: dict[int, Any]) -> list[_Channel]:
    return [one for one in map_.values() if isinstance(one, _Channel)]


def _body_bytes_in_all(largest_body: int) -> int:
    """Room for four of the largest that is accepted, however large the settings make it."""
    return max(_BODY_BYTES_IN_ALL, 4 * largest_body)


def _connection_limit() -> int:
    """The connection limit of this process, after raising its own limit of open files as far as allowed."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _FILES_OF_OUR_OWN + _FILES_A_CONNECTION * CONNECTIONS
    if soft != resource.RLIM_INFINITY and soft < wanted:
        soft = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    if soft == resource.RLIM_INFINITY:
        return CONNECTIONS
    return max(_FEWEST_CONNECTIONS, min(CONNECTIONS, (soft - _FILES_OF_OUR_OWN) // _FILES_A_CONNECTION))
