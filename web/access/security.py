"""Which requests are heard at all. Who sends them is the business of `web.access.table`.

Neither loopback nor a cookie is protection enough: every page the user has open can send requests here. So

* without access control the process listens on loopback only, and answers only clients that come from there;
* ``Host`` must be on the allow-list, or a rebound DNS name would make a stranger's page same-origin with us;
* a write must come from our own pages or from no page at all (``Sec-Fetch-Site``, ``Origin``);
* a stranger's page may link to us, but not load from us (resource isolation), and there is no CORS;
* the content security policy knows no inline script or style, so that a script's text cannot become a script here.
"""

from __future__ import annotations

import ipaddress
from http import HTTPStatus
from urllib.parse import urlsplit

from flask import Flask, Request, Response, request

from minimizer.errors import UserError
from minimizer.settings import Settings
from web.problems import Problem

SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})

CONTENT_SECURITY_POLICY = "; ".join(
    [
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self' data:",  # Pico draws its icons as data URLs in its style sheet
        "connect-src 'self'",
        "form-action 'self'",
        "base-uri 'none'",
        "frame-ancestors 'none'",
    ]
)

# Files that came out of a user's script: shown, never executed, whatever a browser makes of them.
RAW_CONTENT_SECURITY_POLICY = "default-src 'none'; frame-ancestors 'none'; sandbox"

HEADERS = {
    "Content-Security-Policy": CONTENT_SECURITY_POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    # Not "no-referrer": with it a browser sends "Origin: null" even for our own forms.
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
}


def is_loopback(host: str) -> bool:
    """Whether an address, or the name ``localhost``, is reachable from this machine only."""
    if host == "localhost":
        return True
    try:
        address = ipaddress.ip_address(host.strip("[]"))
    except ValueError:
        return False
    mapped = getattr(address, "ipv4_mapped", None)
    return bool((mapped or address).is_loopback)


def check_listen_address(settings: Settings) -> None:
    """Refuse to listen where strangers could reach a service without access control.

    Raises:
        UserError: the address is not loopback, access control is off, and no setting states that the port is published
            on loopback only.
    """
    if settings.access == "on" or is_loopback(settings.host) or settings.published_on_loopback:
        return
    raise UserError(
        f"refusing to listen on {settings.host}: access control is off and the service runs the code it is sent, so it "
        "listens on loopback only. Set MINIMIZER_ACCESS=on, or use 127.0.0.1 and an SSH tunnel. In a container whose port "
        "is published on the host's loopback only (127.0.0.1:8000:8000), set MINIMIZER_PUBLISHED_ON_LOOPBACK=true."
    )


def protect(app: Flask, settings: Settings) -> None:
    """Install the checks before, and the headers after, every request of ``app``."""
    allowed = frozenset(host.strip().lower() for host in settings.allowed_hosts.split(",") if host.strip())

    @app.before_request
    def check_request() -> None:
        _check_client(request, settings)
        _check_host(request, allowed)
        _check_origin(request)

    @app.after_request
    def add_headers(response: Response) -> Response:
        for name, value in HEADERS.items():
            response.headers.setdefault(name, value)
        return response


def _check_client(request: Request, settings: Settings) -> None:
    # An empty address is a Unix socket. Starting gunicorn on 0.0.0.0 by hand is refused here.
    client = request.remote_addr
    if settings.access == "off" and client and not settings.published_on_loopback and not is_loopback(client):
        raise Problem(HTTPStatus.FORBIDDEN, "not-loopback", "This service answers clients on its own machine only.")


def _check_host(request: Request, allowed: frozenset[str]) -> None:
    name = _without_port(request.headers.get("Host", ""))
    if name not in allowed:
        raise Problem(
            HTTPStatus.FORBIDDEN,
            "host-not-allowed",
            "The Host header of this request names no host this service answers for. "
            "Open it under the address it printed, or add the name to MINIMIZER_ALLOWED_HOSTS.",
        )


def _without_port(host: str) -> str:
    host = host.lower()
    if host.startswith("["):
        return host.partition("]")[0] + "]"
    return host.partition(":")[0]


def _check_origin(request: Request) -> None:
    site = request.headers.get("Sec-Fetch-Site")
    if request.method in SAFE_METHODS:
        # "same-site" is a stranger too: another port of localhost counts as the same site.
        is_link = (
            request.headers.get("Sec-Fetch-Mode") == "navigate" and request.headers.get("Sec-Fetch-Dest") == "document"
        )
        if site in ("cross-site", "same-site") and not is_link:
            raise Problem(
                HTTPStatus.FORBIDDEN, "cross-origin", "Another site's page may link here, but not load from here."
            )
        return
    origin = request.headers.get("Origin")
    stranger = (site is not None and site not in ("same-origin", "none")) or (
        origin is not None and not _is_own_origin(origin, request)
    )
    if stranger:
        raise Problem(
            HTTPStatus.FORBIDDEN,
            "cross-origin",
            "This request was sent by a page of another origin. Use the pages of this service, or a client that is no browser.",
        )


def _is_own_origin(origin: str, request: Request) -> bool:
    try:
        parts = urlsplit(origin)
    except ValueError:
        return False
    return parts.scheme in ("http", "https") and parts.netloc.lower() == request.headers.get("Host", "").lower()
