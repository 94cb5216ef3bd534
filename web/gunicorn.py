"""gunicorn's configuration: ``gunicorn --config python:web.gunicorn web.wsgi:app``. Options on its command line come on top."""

from __future__ import annotations

import signal
from typing import Any

from minimizer.settings import settings_from_environment

worker_class = "gthread"
# One process, or each would have its own count of who asks too often where there is no Redis.
workers = 1
threads = settings_from_environment().web_threads
timeout = 120
# For short requests: those that wait are sent home at once.
graceful_timeout = 30


def post_worker_init(worker: Any) -> None:
    """Let SIGTERM end event streams and long polls, which gunicorn would wait for until its patience is at an end."""

    def stop(signum: int, frame: Any) -> None:
        worker.wsgi.extensions["minimizer"].close()
        worker.handle_exit(signum, frame)

    signal.signal(signal.SIGTERM, stop)
