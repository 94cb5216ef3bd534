"""Puts the web application together."""

from __future__ import annotations

from flask_openapi.models.info import Info
from flask_openapi.openapi import OpenAPI

import minimizer
from minimizer.settings import Settings
from minimizer.store import Store
from web import presentation, problems, security
from web.api import api
from web.doorbell import Doorbell, celery_doorbell
from web.files import files
from web.metrics import Metrics
from web.operations import documentation, operations
from web.pages import pages
from web.problems import ProblemBody
from web.service import Service

# What surrounds a script in a request: multipart boundaries, options, and the escapes of JSON.
_ENVELOPE_BYTES = 256 << 10
_JSON_EXPANSION = 3


def create_app(settings: Settings, store: Store | None = None, ring: Doorbell | None = None) -> OpenAPI:
    """A WSGI application on a store whose tables exist.

    Args:
        store: opened from the settings by default.
        ring: tells the workers of a new job; by default over the configured broker.

    Raises:
        UserError: the settings would make it reachable from other machines.
    """
    security.check_listen_address(settings)
    app = OpenAPI(
        "web",
        info=Info(
            title="minimizer",
            version=minimizer.__version__,
            description="Turns a script that torch.compile breaks into a minimal, verified repro.py.",
        ),
        doc_ui=False,
        validation_error_model=ProblemBody,
        validation_error_callback=problems.invalid_request,
    )
    app.openapi_version = "3.1.0"
    app.json.sort_keys = False  # type: ignore[attr-defined]
    app.config["MAX_CONTENT_LENGTH"] = settings.max_script_bytes * _JSON_EXPANSION + _ENVELOPE_BYTES
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
    presentation.install(app)
    for blueprint in (api, files, operations):
        app.register_api(blueprint)
    app.register_blueprint(documentation)
    app.register_blueprint(pages)
    return app
