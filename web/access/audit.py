"""Every request that has changed something is remembered, in one place, so that no view can forget to."""

from __future__ import annotations

import logging
from urllib.parse import urlsplit

from flask import Flask, Response, g, request
from sqlalchemy.exc import SQLAlchemyError

from minimizer.store import Store
from web.access.security import SAFE_METHODS

log = logging.getLogger(__name__)


def made(*names: str) -> None:
    """Record what a request has created, if neither its own address nor its redirect shows it."""
    g.made = names


def install(app: Flask, store: Store) -> None:
    """Keep an audit log of the actions through ``app``."""

    @app.after_request
    def remember(response: Response) -> Response:
        who = g.get("identity")
        if who is not None and request.endpoint and request.method not in SAFE_METHODS and response.status_code < 400:
            leads_to = urlsplit(response.headers.get("Location", "")).path.rpartition("/")[2]
            subjects = g.get("made") or [next(iter((request.view_args or {}).values()), None) or leads_to]
            address = request.remote_addr or ""
            _record(store, [(who.label, request.endpoint, str(subject), address) for subject in subjects])
        return response


def _record(store: Store, entries: list[tuple[str, str, str, str]]) -> None:
    """Add entries; those that cannot be stored are logged, since the change is made, and the answer has to confirm it."""
    for number, entry in enumerate(entries):
        try:
            store.audit.record(*entry)
        except SQLAlchemyError:
            log.exception("the audit log cannot be written to")
            for left in entries[number:]:  # which would only wait for the same database
                log.error("not in the audit log: actor %s, action %s, subject %s, address %s", *left)
            return
