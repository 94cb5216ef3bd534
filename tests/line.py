"""A line to a server that a test can cut and mend, as a cable."""

from __future__ import annotations

import socket
import threading
from types import TracebackType


class Line:
    """Listens on a port of its own and passes on what comes, both ways."""

    def __init__(self, host: str, port: int) -> None:
        self._server = (host, port)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._lock = threading.Lock()
        self._ends: set[socket.socket] = set()
        self._is_cut = False
        self._breaks_at: bytes | None = None
        self.broken_at = threading.Event()
        self._thread = threading.Thread(target=self._accept, name="line", daemon=True)

    def __enter__(self) -> Line:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.cut()
        self._listener.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        self._listener.close()

    def cut(self) -> None:
        """End all connections, and every new one."""
        with self._lock:
            self._is_cut = True
            for end in self._ends:
                _hang_up(end)

    def mend(self) -> None:
        with self._lock:
            self._is_cut, self._breaks_at = False, None

    def break_at(self, text: bytes) -> None:
        """End the connection of whichever client next sends this text, in place of passing it on."""
        self._breaks_at = text

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:  # closed
                return
            with self._lock:
                if self._is_cut:
                    client.close()
                    continue
            server = socket.create_connection(self._server)
            with self._lock:
                self._ends |= {client, server}
                if self._is_cut:
                    _hang_up(client)
            for source, target in ((client, server), (server, client)):
                threading.Thread(target=self._pass_on, args=(source, target, source is client), daemon=True).start()

    def _pass_on(self, source: socket.socket, target: socket.socket, from_client: bool) -> None:
        try:
            while piece := source.recv(1 << 16):
                text = self._breaks_at
                if from_client and text is not None and text in piece:
                    self.broken_at.set()
                    break
                target.sendall(piece)
        except OSError:
            pass
        _hang_up(source)
        _hang_up(target)
        with self._lock:
            if from_client:  # its other half ends by this hang-up, and needs neither end any more
                self._ends -= {source, target}


def _hang_up(end: socket.socket) -> None:
    try:
        end.shutdown(socket.SHUT_RDWR)
    except OSError:  # the other side was quicker
        pass
