"""What lies at a broker as a message and is none."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

log = logging.getLogger(__name__)


@contextmanager
def thrown_away(*passing: type[Exception]) -> Iterator[None]:
    """Deliver a message that has been taken from its queue, or throw it away: another worker would end at it as well.

    Whatever an attempt at nonsense may raise counts as that.

    Args:
        passing: What says that there is no message, or that the broker is lost.
    """
    try:
        yield
    except passing:
        raise
    except Exception as error:
        # Not what it says: that is somebody else's, and belongs in no log.
        log.warning("a message that cannot be read is thrown away (%s)", type(error).__name__)
