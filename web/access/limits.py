"""Rate limits: a moving window of a minute for each user, and a narrow one for strangers who guess keys.

A user can create any number of tokens, so these count together. Strangers are counted by address. If a user's password
is tried too often, from any addresses, each address may try one a minute: that slows all guessing down, and locks out
nobody who knows it from elsewhere.

With Redis as the broker all web processes count together, else each for itself.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable
from ipaddress import IPv4Address, ip_address, ip_network
from urllib.parse import urlsplit

from limits import RateLimitItemPerMinute
from limits.storage import MemoryStorage, Storage, storage_from_string
from limits.strategies import MovingWindowRateLimiter

from minimizer.settings import Settings
from web.problems import Problem

log = logging.getLogger(__name__)

_STRANGER_PER_MINUTE = 20
_NETWORK_BITS = 64
_TOO_MANY = "Too many attempts without a valid key from this address."
_TOO_MANY_FOR_USER = "Too many attempts without the right password for this user: from here one a minute."
_REDIS_SECONDS = 1.0
"""For which a request waits for Redis."""
_ALONE_SECONDS = 10.0
"""Seconds without using Redis after it did not answer: otherwise every request would wait for it."""

Question = Callable[[MovingWindowRateLimiter, RateLimitItemPerMinute, str], bool]
_TEST: Question = MovingWindowRateLimiter.test
_HIT: Question = MovingWindowRateLimiter.hit


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
        self._slowly = RateLimitItemPerMinute(1)

    def count(self, who: str) -> None:
        """Count a request of a known user.

        Raises:
            Problem: 429, this user sends too many requests.
        """
        self._require(_HIT, self._known, f"known/{who}", "This user has asked too often.")

    def refuse_guessing(self, address: str, user: str = "") -> None:
        """Make sure that one more key may be tried; called before it is checked, so that a right guess comes too late.

        Args:
            user: whose password it is, if it is one.

        Raises:
            Problem: 429, the limit of wrong ones from this address is reached, or that for a user whom many try.
        """
        place = _place(address)
        self._require(_TEST, self._stranger, f"stranger/{place}", _TOO_MANY)
        if user and self._ask(_TEST, self._stranger, f"guessed/{user}") is not None:
            self._require(_TEST, self._slowly, f"guessed/{user}/{place}", _TOO_MANY_FOR_USER)

    def count_stranger(self, address: str, user: str = "") -> None:
        """Count a request with an invalid key.

        Raises:
            Problem: 429, somebody guesses keys from this address.
        """
        place = _place(address)
        if user:
            self._ask(_HIT, self._stranger, f"guessed/{user}")
            self._ask(_HIT, self._slowly, f"guessed/{user}/{place}")
        self._require(_HIT, self._stranger, f"stranger/{place}", _TOO_MANY)

    def _require(self, question: Question, item: RateLimitItemPerMinute, key: str, words: str) -> None:
        wait = self._ask(question, item, key)
        if wait is not None:
            raise Problem(429, "too-many-requests", f"{words} Wait {wait} s.", {"Retry-After": str(wait)})

    def _ask(self, question: Question, item: RateLimitItemPerMinute, key: str) -> int | None:
        """The seconds after which there is room in a window again; ``None`` if there is now."""
        limiter = self._own if time.monotonic() < self._alone_until else self._shared
        try:
            return _wait(limiter, question, item, key)
        except Exception:
            # Redis is unavailable. Counting per process is better than either refusing or accepting everybody.
            log.warning("the shared request counter cannot be reached", exc_info=True)
            self._alone_until = time.monotonic() + _ALONE_SECONDS
            return _wait(self._own, question, item, key)


def _wait(limiter: MovingWindowRateLimiter, question: Question, item: RateLimitItemPerMinute, key: str) -> int | None:
    """The seconds after which there is room in a window again; ``None`` if there is now."""
    if question(limiter, item, key):
        return None
    return max(1, math.ceil(limiter.get_window_stats(item, key).reset_time - time.time()))


def _place(address: str) -> str:
    """An address as it is counted: of IPv6 the network, since whoever has one address of it has them all."""
    try:
        found = ip_address(address)
    except ValueError:  # a Unix socket has none
        return address
    if isinstance(found, IPv4Address):
        return address
    return str(found.ipv4_mapped or ip_network((int(found), 128)).supernet(new_prefix=_NETWORK_BITS))
