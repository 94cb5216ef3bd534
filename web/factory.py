"""Puts the web application together."""

from __future__ import annotations

from typing import Any

from flask.json.provider import DefaultJSONProvider
from flask_openapi.models.info import Info
from flask_openapi.openapi import OpenAPI
from werkzeug.middleware.proxy_fix import ProxyFix

import minimizer
from minimizer.settings import Settings
from minimizer.store import Store
from web import compression, problems
from web.access import audit, oidc, security, table
from web.access.sign_in import sign_in_pages
from web.api.account import account
from web.api.files import files
from web.api.jobs import api
from web.api.operations import documentation, operations
from web.api.webhooks import webhooks
from web.failures import failure_pages, failures
from web.metrics import Metrics
from web.pages import presentation
from web.pages.jobs import pages
from web.pages.keys import keys
from web.pages.manual import manual
from web.problems import ProblemBody
from web.service import Service
from web.service.doorbell import Doorbell, celery_doorbell
from web.workers import worker_pages

# Overhead around a script in a request: multipart boundaries, options, and JSON escapes.
_ENVELOPE_BYTES = 256 << 10
_JSON_EXPANSION = 3

_TOKEN = "A personal API token. Needed only where access control is on."


class _Json(DefaultJSONProvider):
    """JSON as we read and write it: all bodies go through here, also those that flask-openapi reads."""

    sort_keys = False

    def loads(self, s: str | bytes, **kwargs: Any) -> Any:
        if not s.strip():
            return None  # an empty body; the model decides whether that is valid
        try:
            return super().loads(s, parse_float=_number, **kwargs)
        except RecursionError:
            raise problems.not_json(ValueError("it is nested too deeply")) from None
        except ValueError as error:
            # A ValueError would be taken for "no body" by flask-openapi, and its words be kept from the sender by Flask.
            raise problems.not_json(error) from None


def _number(text: str) -> float:
    """A JSON number, where 60.0 equals 60: both are integers to a schema."""
    number = float(text)
    return int(number) if number.is_integer() else number


def create_app(settings: Settings, store: Store | None = None, ring: Doorbell | None = None) -> OpenAPI:
    """A WSGI application on a store with existing tables.

    Args:
        store: by default opened from the settings.
        ring: notifies the workers of a new job; by default through the configured broker.

    Raises:
        UserError: the settings would make it reachable from other machines, or configure single sign-on incompletely.
    """
    security.check_listen_address(settings)
    app = OpenAPI(
        "web",
        info=Info(
            title="minimizer",
            version=minimizer.__version__,
            description="Turns a script that torch.compile breaks into a minimal, verified repro.py.",
        ),
        security_schemes={"token": {"type": "http", "scheme": "bearer", "description": _TOKEN}},
        doc_ui=False,
        validation_error_model=ProblemBody,
        validation_error_callback=problems.invalid_request,
    )
    app.openapi_version = "3.1.0"
    app.json = _Json(app)
    largest = max(settings.max_script_bytes * _JSON_EXPANSION, settings.max_archive_bytes)
    app.config["MAX_CONTENT_LENGTH"] = largest + _ENVELOPE_BYTES
    # Pasted text is a form field, and those have a limit of their own.
    app.config["MAX_FORM_MEMORY_SIZE"] = app.config["MAX_CONTENT_LENGTH"]
    app.jinja_options = {"trim_blocks": True, "lstrip_blocks": True}

    here = Service.create(
        settings,
        store
        if store is not None
        else Store.open(settings.resolved_database_url, max_queued_jobs=settings.max_queued_jobs),
        ring if ring is not None else celery_doorbell(settings),
    )
    app.extensions["minimizer"] = here
    problems.install(app)
    Metrics(here).install(app)
    security.protect(app, settings)
    table.install(app, settings, here.store)
    audit.install(app, here.store)
    compression.install(app)
    presentation.install(app)
    for blueprint in (api, files, failures, account, webhooks, operations):
        app.register_api(blueprint)
    for pages_of in (documentation, manual, pages, failure_pages, worker_pages, sign_in_pages, keys):
        app.register_blueprint(pages_of)
    oidc.install(app, settings)
    if settings.trusted_proxies:
        hops = settings.trusted_proxies
        app.wsgi_app = ProxyFix(app.wsgi_app, x_for=hops, x_proto=hops)  # type: ignore[method-assign]
    return app
