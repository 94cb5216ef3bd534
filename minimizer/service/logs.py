"""Logs of the service: lines of text or JSON, each with the context of its thread (job, request).

The modules log with the standard library; structlog only renders, so that lines of Celery and SQLAlchemy look the same.
"""

from __future__ import annotations

import logging

import structlog

from minimizer.settings import Settings


def configure(settings: Settings) -> None:
    """Send this process's log to standard error."""
    shared: list[structlog.types.Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    last: list[structlog.types.Processor] = (
        [structlog.processors.format_exc_info, structlog.processors.JSONRenderer()]
        if settings.log_format == "json"
        else [
            structlog.dev.ConsoleRenderer(
                colors=False,
                pad_event_to=0,
                # If rich is installed, the default prints local variables, including passwords and tokens.
                exception_formatter=structlog.dev.plain_traceback,
            )
        ]
    )
    handler = logging.StreamHandler()
    handler.setFormatter(
        _Formatter(
            foreign_pre_chain=shared,
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *last],
        )
    )
    logging.basicConfig(handlers=[handler], level=logging.INFO, force=True)
    logging.getLogger("alembic").setLevel(logging.WARNING)  # it logs each of its own steps


class _Formatter(structlog.stdlib.ProcessorFormatter):
    """Renders a record so that nothing in it can pass for another record, or for a terminal command.

    Requests, scripts and brokers influence what is logged: a path, the message of an exception, the name of a task.
    """

    def format(self, record: logging.LogRecord) -> str:
        lines = super().format(record).split("\n")
        return "\n  ".join("".join(map(_visible, line)) for line in lines)


def _visible(char: str) -> str:
    return char if char.isprintable() or char == "\t" else char.encode("unicode_escape").decode()
