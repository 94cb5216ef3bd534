"""The embedded web server: waitress on loopback."""

from __future__ import annotations

import socket
from collections.abc import Callable

from waitress.server import create_server
from waitress.task import ThreadedTaskDispatcher

from minimizer.errors import UserError
from minimizer.settings import Settings
from web.factory import create_app
from web.security import check_listen_address
from web.service import Service

# Far above what the application takes, so that the application is the one to refuse, and says why.
_MAX_REQUEST_BYTES = 256 << 20


def serve(settings: Settings, on_ready: Callable[[str], None] = lambda url: None) -> None:
    """Serve until interrupted; ``on_ready`` is told the address once the port is open.

    Raises:
        UserError: the address is not loopback, or the port is taken.
    """
    check_listen_address(settings)
    with _listen(settings) as listener:
        app = create_app(settings)
        threads = _Threads(app.extensions["minimizer"])
        threads.set_thread_count(settings.web_threads)
        server = create_server(
            app,
            sockets=[listener],
            max_request_body_size=_MAX_REQUEST_BYTES,
            ident=None,
            # The application judges them (`web.factory`); what waitress takes away would not even reach it.
            clear_untrusted_proxy_headers=not settings.trusted_proxies,
            _dispatcher=threads,
        )
        try:
            host = f"[{settings.host}]" if ":" in settings.host else settings.host
            on_ready(f"http://{host}:{settings.port}")
            server.run()
        finally:
            threads.shutdown()
            server.close()


def _listen(settings: Settings) -> socket.socket:
    host = settings.host.strip("[]")
    try:
        return socket.create_server((host, settings.port), family=socket.AF_INET6 if ":" in host else socket.AF_INET)
    except OSError as error:
        raise UserError(
            f"cannot listen on {settings.host}:{settings.port}: {error.strerror or error}. "
            "Something else may be using the port: set MINIMIZER_PORT to another."
        ) from error


class _Threads(ThreadedTaskDispatcher):  # type: ignore[misc]  # waitress has no types
    """The threads of the server. Those that hold an event stream or a long poll must be sent home before they can end."""

    def __init__(self, service: Service) -> None:
        super().__init__()
        self._service = service

    def shutdown(self, cancel_pending: bool = True, timeout: float = 5) -> bool:
        self._service.close()
        return bool(super().shutdown(cancel_pending, timeout))
