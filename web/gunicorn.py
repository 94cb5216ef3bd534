"""gunicorn's configuration: ``gunicorn --config python:web.gunicorn web.wsgi:app``. Options on its command line come on top.

gunicorn looks after the process; requests are taken in by `web.server.front`, as by ``minimizer serve``. gunicorn's own threaded
worker reads each request in one of its threads, so that as many slow clients as there are threads stop it.
"""

from __future__ import annotations

import os
from typing import Any

from gunicorn.errors import HaltServer
from gunicorn.glogging import Logger
from gunicorn.workers.base import Worker

from minimizer.service import logs
from minimizer.settings import settings_from_environment
from web.server.front import Front


class FrontWorker(Worker):  # type: ignore[misc]  # gunicorn has no types
    """A process that serves until gunicorn stops it."""

    @classmethod
    def check_config(cls, cfg: Any, log: Any) -> None:
        if cfg.is_ssl:
            raise HaltServer(
                "TLS is for a proxy in front of the service (docs/deploy.md): leave --certfile and --keyfile out"
            )

    def run(self) -> None:
        front = Front(self.wsgi, settings_from_environment(), [one.sock for one in self.sockets], self.cfg.threads)
        while self.alive and os.getppid() == self.ppid:
            self.notify()
            front.turn()
        front.close(self.cfg.graceful_timeout)


class ServiceLog(Logger):  # type: ignore[misc]
    """gunicorn's own lines, in the form of ours."""

    def setup(self, cfg: Any) -> None:
        super().setup(cfg)
        if cfg.errorlog == "-":
            logs.configure(settings_from_environment())
            self.error_log.handlers.clear()
            self.error_log.propagate = True


worker_class = FrontWorker
logger_class = ServiceLog
# One process, since without Redis each would have its own rate limits.
workers = 1
threads = settings_from_environment().web_threads
timeout = 120
# For short requests: those that wait are sent home at once.
graceful_timeout = 30
