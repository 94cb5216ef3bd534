"""For gunicorn: ``gunicorn --config python:web.gunicorn web.wsgi:app``. It does not start on a database of another version."""

from __future__ import annotations

from minimizer.service import logs
from minimizer.settings import settings_from_environment
from minimizer.store.tables.migrate import require_current
from web.factory import create_app

settings = settings_from_environment()
logs.configure(settings)
require_current(settings.resolved_database_url)
app = create_app(settings)
