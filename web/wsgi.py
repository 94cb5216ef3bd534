"""For gunicorn: ``gunicorn --worker-class gthread web.wsgi:app``."""

from __future__ import annotations

from minimizer.settings import Settings
from web.factory import create_app

app = create_app(Settings())
