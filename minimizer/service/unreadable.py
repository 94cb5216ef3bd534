"""Discards malformed messages from a broker."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

log = logging.getLogger(__name__)


@contextmanager
def thrown_away(*passing: type[Exception]) -> Iterator[None]:
    """Deliver a message taken from its queue, or discard it: another worker would crash on it as well.

    Any exception of a decoding attempt marks it as malformed.

    Args:
        passing: exceptions for an empty queue, or a lost broker.
    """
    try:
        yield
    except passing:
        raise
    except Exception as error:
        # Not the content: it is untrusted, and does not belong in a log.
        log.warning("a message that cannot be read is thrown away (%s)", type(error).__name__)
