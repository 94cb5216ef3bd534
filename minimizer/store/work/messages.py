"""The queue of webhook messages: which message is due, when it is retried, and when it is given up.

A message is stored in the transaction that ends its job (`outbox`), so none is lost. Taking a message for sending schedules its next
attempt, so that another sender retries it if this one dies. A receiver may therefore see a message twice, under the same number.
"""

from __future__ import annotations

from collections.abc import Collection
from datetime import timedelta

from sqlalchemy import delete, select

from minimizer.store.tables import bounds
from minimizer.store.tables.database import Database
from minimizer.store.tables.models import DeliveryRow, WebhookRow
from minimizer.store.views import Message

MAX_ATTEMPTS = 8
"""Attempts after which a message is abandoned."""
_FIRST_PAUSE = 10
"""Seconds to the second attempt; each later one takes three times as long, the last comes after three hours."""
_KEPT = timedelta(days=30)
"""Age at which messages are deleted."""


class Messages:
    """The part of the store for the queue of webhook messages."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def take(self, to_none_of: Collection[str] = ()) -> Message | None:
        """Take a due message, and count the attempt; ``None`` if none is due, without a write or a lock.

        Take one at a time: the pause until its next attempt only allows for sending one message.

        Args:
            to_none_of: ids of webhooks whose messages are not taken.
        """
        with self._database.read() as session:
            now = self._database.now(session)
            is_due = (DeliveryRow.next_at <= now) & DeliveryRow.webhook_id.not_in(to_none_of)
            if session.scalars(select(DeliveryRow.number).where(is_due).limit(1)).first() is None:
                return None
        with self._database.write() as session:
            session.execute(delete(DeliveryRow).where(DeliveryRow.created_at < now - _KEPT))
            due = select(DeliveryRow).where(is_due).order_by(DeliveryRow.next_at).limit(1)
            row = session.scalars(due.with_for_update(skip_locked=True, of=DeliveryRow)).first()
            if row is None:
                return None
            row.next_at = now + timedelta(seconds=_FIRST_PAUSE * 3**row.attempts)
            row.attempts += 1
            hook = session.get_one(WebhookRow, row.webhook_id)
            return Message(row.number, hook.id, hook.url, hook.secret, row.body)

    def settle(self, number: int, *, arrived: bool, answer: str) -> None:
        """Record the result of an attempt. A message that did not arrive is retried, up to `MAX_ATTEMPTS` attempts."""
        with self._database.write() as session:
            row = session.get(DeliveryRow, number)
            if row is None:  # the webhook was deleted meanwhile
                return
            row.answer = bounds.text(answer, 255)
            if arrived:
                row.delivered_at = self._database.now(session)
            if arrived or row.attempts >= MAX_ATTEMPTS:
                row.next_at = None
