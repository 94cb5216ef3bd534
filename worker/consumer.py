"""Takes messages as Celery does, and throws away those that are no ring."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from celery.worker import consumer

log = logging.getLogger(__name__)


class Consumer(consumer.Consumer):  # type: ignore[misc]  # celery has no types
    """Celery's, which a message may not end.

    Celery itself ends at a message without an id, for one, and writes the content of others into the log.
    """

    def create_task_handler(self) -> Callable[[Any], None]:
        handle = super().create_task_handler()

        def on_message(message: Any) -> None:
            try:
                handle(message)
            except Exception as error:
                self._throw_away(message, error)

        return on_message

    def on_decode_error(self, message: Any, exc: Exception) -> None:
        self._throw_away(message, exc)

    def on_unknown_message(self, body: object, message: Any) -> None:
        self._throw_away(message, LookupError())

    def on_unknown_task(self, body: object, message: Any, exc: Exception) -> None:
        self._throw_away(message, exc)

    def on_invalid_task(self, body: object, message: Any, exc: Exception) -> None:
        self._throw_away(message, exc)

    def _throw_away(self, message: Any, error: Exception) -> None:
        log.warning("a message that is no ring is thrown away (%s)", type(error).__name__)
        if not message.acknowledged:
            message.reject()  # raises if the connection is lost
