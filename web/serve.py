"""The embedded web server: waitress on loopback."""

from __future__ import annotations

from collections.abc import Callable

from waitress.server import create_server

from minimizer.errors import UserError
from minimizer.settings import Settings
from web.factory import create_app
from web.security import check_listen_address
from web.service import Service


def serve(settings: Settings, on_ready: Callable[[str], None] = lambda url: None) -> None:
    """Serve until interrupted; ``on_ready`` is told the address once the port is open.

    Raises:
        UserError: the address is not loopback, or the port is taken.
    """
    check_listen_address(settings)
    app = create_app(settings)
    here: Service = app.extensions["minimizer"]
    try:
        server = create_server(
            app,
            host=settings.host.strip("[]"),
            port=settings.port,
            threads=settings.web_threads,
            # Far above what the application takes, so that the application is the one to refuse, and says why.
            max_request_body_size=max(64 << 20, app.config["MAX_CONTENT_LENGTH"] * 4),
            ident=None,
        )
    except OSError as error:
        here.close()
        raise UserError(
            f"cannot listen on {settings.host}:{settings.port}: {error.strerror or error}. "
            "Something else may be using the port: set MINIMIZER_PORT to another."
        ) from error
    on_ready(f"http://{settings.host}:{settings.port}")
    try:
        server.run()
    finally:
        here.close()
        server.close()
