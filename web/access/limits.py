"""How often one may ask: a moving window of a minute for each user, and a narrow one for strangers who try keys.

A user makes as many tokens as he or she likes, so these count together. Strangers are counted by address, and by the user
whose password they try, wherever they come from.

With Redis as the broker all web processes count together, else each for itself.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable
from urllib.parse import urlsplit

from limits import RateLimitItemPerMinute
from limits.storage import MemoryStorage, Storage, storage_from_string
from limits.strategies import MovingWindowRateLimiter

from minimizer.settings import Settings
from web.problems import Problem

log = logging.getLogger(__name__)

_STRANGER_PER_MINUTE = 20
_REDIS_SECONDS = 1.0
"""For which a request waits for Redis."""
_ALONE_SECONDS = 10.0
"""For which Redis is not asked again after it has not answered: every request would wait for it."""

Question = Callable[[MovingWindowRateLimiter, RateLimitItemPerMinute, str], bool]


class Limits:
    """The windows of one application."""

    def __init__(self, settings: Settings) -> None:
        url = settings.resolved_broker_url
        is_redis = urlsplit(url).scheme in ("redis", "rediss")
        patience = {"socket_timeout": _REDIS_SECONDS, "socket_connect_timeout": _REDIS_SECONDS}
        shared: Storage = storage_from_string(url, **patience) if is_redis else MemoryStorage()  # type: ignore[assignment]
        self._shared = MovingWindowRateLimiter(shared)
        self._alone_until = 0.0
        self._own = MovingWindowRateLimiter(MemoryStorage())
        self._known = RateLimitItemPerMinute(settings.requests_per_minute)
        self._stranger = RateLimitItemPerMinute(_STRANGER_PER_MINUTE)

    def count(self, who: str) -> None:
        """Count a request of somebody we know.

        Raises:
            Problem: 429, this user asks too often.
        """
        self._hit(self._known, f"known/{who}", "This user has asked too often.")

    def refuse_guessing(self, address: str, user: str = "") -> None:
        """Make sure that one more key may be tried; called before it is looked at, so that a right guess comes too late.

        Args:
            user: whose password it is, if it is one.

        Raises:
            Problem: 429, as many wrong ones as may be came from this address, or were tried for this user.
        """
        for key, words in _guesses(address, user):
            self._ask(MovingWindowRateLimiter.test, self._stranger, key, words)

    def count_stranger(self, address: str, user: str = "") -> None:
        """Count a request with a key that opens nothing.

        Raises:
            Problem: 429, somebody tries keys from this address, or for this user.
        """
        for key, words in _guesses(address, user):
            self._hit(self._stranger, key, words)

    def _hit(self, item: RateLimitItemPerMinute, key: str, words: str) -> None:
        self._ask(MovingWindowRateLimiter.hit, item, key, words)

    def _ask(
        self,
        question: Question,
        item: RateLimitItemPerMinute,
        key: str,
        words: str,
    ) -> None:
        limiter = self._own if time.monotonic() < self._alone_until else self._shared
        try:
            wait = _wait(limiter, question, item, key)
        except Exception:
            # Redis is away. Counting alone is better than either refusing everybody or counting nobody.
            log.warning("the shared request counter cannot be reached", exc_info=True)
            self._alone_until = time.monotonic() + _ALONE_SECONDS
            wait = _wait(self._own, question, item, key)
        if wait is not None:
            raise Problem(429, "too-many-requests", f"{words} Wait {wait} s.", {"Retry-After": str(wait)})


def _wait(limiter: MovingWindowRateLimiter, question: Question, item: RateLimitItemPerMinute, key: str) -> int | None:
    """The seconds after which there is room in a window again; ``None`` if there is now."""
    if question(limiter, item, key):
        return None
    return max(1, math.ceil(limiter.get_window_stats(item, key).reset_time - time.time()))


def _guesses(address: str, user: str) -> list[tuple[str, str]]:
    windows = [(f"stranger/{address}", "Too many attempts without a valid key from this address.")]
    if user:
        windows.append((f"guessed/{user}", "Too many attempts without the right password for this user."))
    return windows
