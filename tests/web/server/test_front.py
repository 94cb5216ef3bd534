"""What the web server lets a client do to others: by silence, by slowness, by reading nothing, by large bodies.

The server's clock is the test's: nobody waits for a time-out.
"""

from __future__ import annotations

import os
import select
import socket
import stat
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from types import SimpleNamespace

import pytest
from held import Held

from minimizer.settings import Settings
from minimizer.store import Store
from web import create_app
from web.server import front
from web.server.front import IDLE_SECONDS, Front

THREADS = 4
LARGE = 64 << 20
"""An answer that no socket holds, nor the server's buffer."""
LONG = 4 << 20
"""An answer that the server's buffer holds, and no socket."""
SMALL_BUFFER = 8 << 10
"""For the kernel's part, so that a reader is seen to read before it has read megabytes."""
PATIENCE_SECONDS = 60


class Server:
    """A web server in a thread, whose clock is moved by hand."""

    def __init__(self, served: Front, address: tuple[str, int]) -> None:
        self.address = address
        self.seconds = time.time()
        self.working = threading.Event()
        self.go_on = threading.Event()
        self._front = served
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def connect(self) -> socket.socket:
        return socket.create_connection(self.address, timeout=PATIENCE_SECONDS)

    def read(self, path: str) -> socket.socket:
        """A connection that has asked for an answer, and of which the kernel takes little by itself."""
        connection = socket.socket()
        connection.settimeout(PATIENCE_SECONDS)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, SMALL_BUFFER)
        connection.connect(self.address)
        connection.sendall(f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n".encode())
        return connection

    def ask(self, request: bytes = b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n") -> str:
        """The whole answer to a request on a connection of its own."""
        with self.connect() as connection:
            connection.sendall(request)
            return rest(connection)

    def late(self) -> bytes:
        self.working.set()
        self.go_on.wait(PATIENCE_SECONDS)
        return bytes(LONG)

    def close(self) -> None:
        self._stopping.set()
        self._thread.join()
        self._front.close(0)

    def _serve(self) -> None:
        while not self._stopping.is_set():
            self._front.turn()


@pytest.fixture
def server(sqlite_url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    settings = Settings(database_url=sqlite_url, broker_url="memory://", max_script_bytes=1024, max_archive_bytes=1024)
    store = Store.open(sqlite_url)
    app = create_app(settings, store, lambda job: None)
    app.add_url_rule("/large", view_func=lambda: (bytes(1 << 20) for _ in range(LARGE >> 20)))
    app.add_url_rule("/long", "long", view_func=lambda: bytes(LONG))
    app.add_url_rule("/late", "late", view_func=lambda: running.late())
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SMALL_BUFFER)
        running = Server(Front(app, settings, [listener], THREADS), listener.getsockname())
        clock = SimpleNamespace(time=lambda: running.seconds, monotonic=time.monotonic)
        monkeypatch.setattr("web.server.front.time", clock)
        monkeypatch.setattr("waitress.channel.time", clock)
        yield running
        running.close()
    store.close()


def rest(connection: socket.socket) -> str:
    """All that comes up to the end of a connection."""
    pieces = []
    while piece := connection.recv(1 << 16):
        pieces.append(piece)
    return b"".join(pieces).decode()


def upload(size: int, *, chunked: bool = False) -> tuple[bytes, bytes]:
    """The head and the body of a request with a script of this size."""
    length = "Transfer-Encoding: chunked" if chunked else f"Content-Length: {size}"
    head = f"POST /api/v1/jobs HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nConnection: close\r\n{length}\r\n\r\n"
    body = b'{"script": "' + b"#" * (size - 14) + b'"}'
    return head.encode(), b"%x\r\n%b\r\n0\r\n\r\n" % (size, body) if chunked else body


def spooled() -> int:
    """Bytes in files of this process that have no name."""
    sizes = 0
    for name in os.listdir("/proc/self/fd"):  # noqa: PTH208 - names are enough
        try:
            found = os.fstat(int(name))
        except OSError:  # the listing's own
            continue
        if stat.S_ISREG(found.st_mode) and not found.st_nlink:
            sizes += found.st_size
    return sizes


def test_whoever_is_silent_or_slow_is_sent_away(server: Server) -> None:
    with Held(*server.address, 20) as held:
        server.ask()  # by then all that was sent before has been read
        for _ in range(IDLE_SECONDS // 5):
            assert held.open() == 20
            server.seconds += 5
            held.trickle()
            server.ask()
        deadline = time.monotonic() + PATIENCE_SECONDS
        server.seconds += 10  # more than 20 since they began, less than 20 since the last byte
        while held.open():
            server.ask()
            assert time.monotonic() < deadline
    assert server.ask().startswith("HTTP/1.1 200")


def test_a_long_upload_may_take_its_time(server: Server) -> None:
    head, body = upload(200_000)
    with server.connect() as connection:
        connection.sendall(head)
        for begin in range(0, len(body), 1 << 16):
            connection.sendall(body[begin : begin + (1 << 16)])
            server.ask()
            server.seconds += IDLE_SECONDS - 1
            server.ask()
        assert "at most 1,024" in rest(connection)


def test_an_answer_that_nobody_takes_holds_no_thread(server: Server) -> None:
    with ExitStack() as open_:
        greedy = [open_.enter_context(server.connect()) for _ in range(THREADS)]
        for connection in greedy:
            connection.sendall(b"GET /large HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
        for connection in greedy:
            select.select([connection], [], [])
        waiting = open_.enter_context(server.connect())
        waiting.sendall(b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n")
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not select.select([waiting], [], [], 0.1)[0]:
            server.seconds += 1
            assert time.monotonic() < deadline
        assert rest(waiting).startswith("HTTP/1.1 200")


def test_an_answer_that_is_taken_bit_by_bit_holds_no_thread(server: Server) -> None:
    with ExitStack() as open_:
        greedy = [open_.enter_context(server.read("/large")) for _ in range(THREADS)]
        for connection in greedy:
            select.select([connection], [], [])
        waiting = open_.enter_context(server.connect())
        waiting.sendall(b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n")
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not select.select([waiting], [], [], 0.1)[0]:
            for connection in greedy:
                with suppress(OSError):  # the server has had enough of it
                    connection.recv(1 << 10)
            server.seconds += 1
            assert time.monotonic() < deadline
        assert rest(waiting).startswith("HTTP/1.1 200")


def test_a_long_answer_may_take_its_time(server: Server) -> None:
    with server.read("/long") as connection, connection.makefile("rb") as reader:
        answer = bytearray()
        while piece := reader.read(1 << 18):
            answer += piece
            server.seconds += IDLE_SECONDS - 1
            server.ask()
    assert answer.startswith(b"HTTP/1.1 200") and answer.endswith(bytes(LONG))


def test_an_answer_that_has_been_long_in_coming_is_not_idle(server: Server) -> None:
    """Its connection has been silent for a minute when it begins to be sent, and it is more than the socket takes."""
    with server.read("/late") as reader:
        server.working.wait(PATIENCE_SECONDS)
        server.seconds += 3 * IDLE_SECONDS
        server.go_on.set()
        select.select([reader], [], [])
        server.ask()
        assert len(rest(reader)) > LONG


def test_a_request_that_is_worked_on_is_not_idle(server: Server) -> None:
    """A long poll is silent for a minute."""
    head, body = upload(500)
    created = server.ask(head + body)
    job = created.split('"id":"')[1].split('"')[0]
    with server.connect() as poll:
        poll.sendall(
            f"GET /api/v1/jobs/{job}?wait=60 HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n".encode()
        )
        until_polling(server)
        server.seconds += 10 * IDLE_SECONDS
        server.ask()
        cancel = f"POST /api/v1/jobs/{job}/cancel HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"
        assert server.ask(cancel.encode()).startswith("HTTP/1.1 2")
        assert '"status":"cancelled"' in rest(poll)


def until_polling(server: Server) -> None:
    metrics = b"GET /metrics HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n"
    deadline = time.monotonic() + PATIENCE_SECONDS
    while "minimizer_long_polls 1.0" not in server.ask(metrics):
        assert time.monotonic() < deadline


@pytest.mark.parametrize("chunked", [False, True])
def test_what_is_too_large_is_refused_and_not_kept(server: Server, chunked: bool) -> None:
    head, body = upload(20 << 20, chunked=chunked)
    before = spooled()
    with server.connect() as connection:
        connection.sendall(head + body[:-1])
        server.ask()
        assert spooled() == before
        connection.sendall(body[-1:])
        answer = rest(connection)
    assert answer.startswith("HTTP/1.1 413") and "MINIMIZER_MAX_SCRIPT_BYTES" in answer


def test_bodies_have_room_for_so_many_bytes_together(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(front, "_BODY_BYTES_IN_ALL", 0)  # then it is four of the largest
    head, body = upload(250_000)
    before = spooled()
    with ExitStack() as open_:
        senders = [open_.enter_context(server.connect()) for _ in range(5)]
        for count, sender in enumerate(senders):
            deadline = time.monotonic() + PATIENCE_SECONDS
            while spooled() - before < count * (len(body) - 1):
                assert time.monotonic() < deadline
            sender.sendall(head + body[:-1])
        *kept, refused = senders
        refused.sendall(body[-1:])
        answer = rest(refused)
        assert answer.startswith("HTTP/1.1 503") and "urn:minimizer:problem:unavailable" in answer
        for sender in kept:
            sender.sendall(body[-1:])
            assert "at most 1,024" in rest(sender)
    assert "at most 1,024" in server.ask(head + body), "there is room again"


@pytest.mark.parametrize("chunked", [False, True])
def test_a_disk_that_is_full_is_said(server: Server, chunked: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(tempfile, "TemporaryFile", lambda *_: Path("/dev/full").open("w+b"))  # noqa: SIM115
        head, body = upload(250_000, chunked=chunked)
        answer = server.ask(head + body)
    assert answer.startswith("HTTP/1.1 503") and "urn:minimizer:problem:disk-full" in answer
    assert "at most 1,024" in server.ask(head + body), "there is room again"
