"""Every request that has changed something is remembered, in one place, so that no view can forget to."""

from __future__ import annotations

from urllib.parse import urlsplit

from flask import Flask, Response, g, request

from minimizer.store import Store
from web.access.security import SAFE_METHODS


def made(*names: str) -> None:
    """Say what a request has made, where neither its own address nor the one it leads to does."""
    g.made = names


def install(app: Flask, store: Store) -> None:
    """Keep an audit log of what is done by way of ``app``."""

    @app.after_request
    def remember(response: Response) -> Response:
        who = g.get("identity")
        if who is not None and request.endpoint and request.method not in SAFE_METHODS and response.status_code < 400:
            leads_to = urlsplit(response.headers.get("Location", "")).path.rpartition("/")[2]
            subjects = g.get("made") or [next(iter((request.view_args or {}).values()), None) or leads_to]
            for subject in subjects:
                store.record(who.label, request.endpoint, str(subject), request.remote_addr or "")
        return response
