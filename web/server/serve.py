"""The embedded web server: on loopback, with a thread for each request in progress."""

from __future__ import annotations

import socket
from collections.abc import Callable
from contextlib import suppress

from minimizer.errors import UserError
from minimizer.service import logs
from minimizer.settings import Settings
from web.access.security import check_listen_address
from web.factory import create_app
from web.server.front import Front

_PATIENCE_SECONDS = 5
"""Seconds for short requests to complete when the server is stopped."""


def serve(settings: Settings, on_ready: Callable[[str], None] = lambda url: None) -> None:
    """Serve until interrupted; ``on_ready`` is called with the address once the port is open.

    Raises:
        UserError: the address is not loopback, or the port is taken.
    """
    check_listen_address(settings)
    logs.configure(settings)
    with _listen(settings) as listener:
        front = Front(create_app(settings), settings, [listener], settings.web_threads)
        try:
            host = f"[{settings.host}]" if ":" in settings.host else settings.host
            on_ready(f"http://{host}:{settings.port}")
            with suppress(KeyboardInterrupt):
                while True:
                    front.turn()
        finally:
            front.close(_PATIENCE_SECONDS)


def _listen(settings: Settings) -> socket.socket:
    host = settings.host.strip("[]")
    try:
        return socket.create_server((host, settings.port), family=socket.AF_INET6 if ":" in host else socket.AF_INET)
    except OSError as error:
        raise UserError(
            f"cannot listen on {settings.host}:{settings.port}: {error.strerror or error}. "
            "Something else may be using the port: set MINIMIZER_PORT to another."
        ) from error
