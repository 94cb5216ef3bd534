"""The thread that sends the signed messages of webhooks, and records the outcome in the store.

A receiver checks `X-Minimizer-Signature`: ``sha256=`` and the HMAC, under the secret of the webhook, of the timestamp
header, a dot, and the body. Any answer of 200 to 299 within ten seconds counts as delivered; redirects are not
followed.
"""

from __future__ import annotations

import hashlib
import hmac
import http.client
import logging
import queue
import threading
import time
import urllib.error
import urllib.request
from typing import Any

from minimizer import __version__
from minimizer.store import Message, Store

log = logging.getLogger(__name__)

_TIMEOUT_SECONDS = 10
_SLOW_SECONDS = 2
"""A receiver that has not taken a message in this time gets no other one in the same round."""
_UNANSWERED = 32
"""Receivers that may still be talking after their time; each of them holds a thread."""


def sign(secret: str, timestamp: str, body: bytes) -> str:
    """The signature of a message."""
    return "sha256=" + hmac.new(secret.encode(), timestamp.encode() + b"." + body, hashlib.sha256).hexdigest()


class Courier:
    """Sends due messages. Every worker has one; the store gives each message to one of them at a time."""

    def __init__(self, store: Store, pause_seconds: float, stopping: threading.Event) -> None:
        self._store = store
        self._pause_seconds = pause_seconds
        self._stopping = stopping
        self._places = threading.BoundedSemaphore(_UNANSWERED)

    def start(self) -> threading.Thread:
        thread = threading.Thread(target=self._run, name="courier", daemon=True)
        thread.start()
        return thread

    def round(self) -> None:
        """Send all due messages, but only one to a slow receiver: others wait behind it."""
        slow: set[str] = set()
        while not self._stopping.is_set() and (message := self._store.messages.take(to_none_of=slow)) is not None:
            begun = time.monotonic()
            arrived, answer = self._deliver(message)
            self._store.messages.settle(message.number, arrived=arrived, answer=answer)
            if not arrived and time.monotonic() - begun >= _SLOW_SECONDS:
                slow.add(message.webhook_id)

    def _deliver(self, message: Message) -> tuple[bool, str]:
        """Send a message, and abandon a receiver that answers without end: a socket's timeout applies to each byte."""
        if not self._places.acquire(blocking=False):
            return False, f"not sent: {_UNANSWERED} receivers have not come to the end of their answers"
        answers: queue.SimpleQueue[tuple[bool, str]] = queue.SimpleQueue()

        def deliver() -> None:
            try:
                answers.put(send(message))
            finally:
                self._places.release()

        threading.Thread(target=deliver, name="delivery", daemon=True).start()
        try:
            return answers.get(timeout=_TIMEOUT_SECONDS)
        except queue.Empty:
            return False, f"no whole answer within {_TIMEOUT_SECONDS} s"

    def _run(self) -> None:
        while not self._stopping.wait(self._pause_seconds):
            try:
                self.round()
            except Exception:
                # Whatever it is (most likely the database is away), the next round must come.
                log.warning("this round of the courier failed", exc_info=True)


def send(message: Message) -> tuple[bool, str]:
    """Send a message once; returns whether it arrived, and the receiver's answer."""
    body, timestamp = message.body.encode(), str(int(time.time()))
    headers = {
        "Content-Type": "application/json",
        "User-Agent": f"minimizer/{__version__}",
        "X-Minimizer-Delivery": str(message.number),
        "X-Minimizer-Timestamp": timestamp,
        "X-Minimizer-Signature": sign(message.secret, timestamp, body),
    }
    request = urllib.request.Request(message.url, data=body, headers=headers)
    try:
        with urllib.request.build_opener(_NoRedirect).open(request, timeout=_TIMEOUT_SECONDS) as response:
            return True, f"{response.status} {response.reason}"
    except urllib.error.HTTPError as error:
        error.close()
        return False, f"{error.code} {error.reason}"
    except (OSError, ValueError, http.client.HTTPException) as error:
        return False, str(getattr(error, "reason", error)) or type(error).__name__


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_: Any) -> None:
        return None
