"""Redis as a broker, for a worker that discards malformed messages and goes on.

kombu's own transport takes them from its queue and raises the parsing error, which ends the worker.
"""

from __future__ import annotations

from queue import Empty
from typing import Any

from kombu.transport import redis
from redis import exceptions

from minimizer.service.unreadable import thrown_away

_OF_THE_SERVER = (
    exceptions.ConnectionError,
    exceptions.TimeoutError,
    exceptions.InvalidResponse,
    exceptions.ResponseError,
)


class Channel(redis.Channel):
    """Delivers readable messages."""

    def _brpop_read(self, **options: Any) -> bool:
        # Not kombu's own list of errors of a connection: a KeyError counts as one there, and may come of any message.
        with thrown_away(Empty, OSError, *_OF_THE_SERVER):
            return bool(super()._brpop_read(**options))  # type: ignore[no-untyped-call]
        return True


class Transport(redis.Transport):
    """The transport behind ``redis://`` and ``rediss://``."""

    Channel = Channel
