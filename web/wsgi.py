"""For gunicorn: ``gunicorn --worker-class gthread web.wsgi:app``."""

from __future__ import annotations

from minimizer import logs
from minimizer.settings import Settings
from web.factory import create_app

settings = Settings()
logs.configure(settings)
app = create_app(settings)
