"""Every request that has changed something is remembered, in one place, so that no view can forget to."""

from __future__ import annotations

from flask import Flask, Response, g, request

from minimizer.store import Store
from web.security import SAFE_METHODS


def install(app: Flask, store: Store) -> None:
    """Keep an audit log of what is done by way of ``app``."""

    @app.after_request
    def remember(response: Response) -> Response:
        who = g.get("identity")
        if who is not None and request.endpoint and request.method not in SAFE_METHODS and response.status_code < 400:
            made = response.headers.get("Location", "")
            subject = next(iter((request.view_args or {}).values()), None) or made.rpartition("/")[2]
            store.record(who.label, request.endpoint, str(subject), request.remote_addr or "")
        return response
