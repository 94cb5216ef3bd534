"""Webhooks: addresses that are told when a job ends, and what became of every message.

A message is stored in the transaction that ends its job (`outbox`), so that none is lost. Taking one to send it pushes its next attempt
into the future: if the sender dies, another one tries again. A receiver may hence see a message twice, under the same number.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Collection
from datetime import timedelta
from urllib.parse import urlsplit

from sqlalchemy import delete, select
from sqlalchemy.orm import Session

from minimizer.store.access.projects import find_project
from minimizer.store.errors import InvalidUrl, UnknownWebhook
from minimizer.store.tables import bounds
from minimizer.store.tables.database import Database
from minimizer.store.tables.models import DeliveryRow, ProjectRow, WebhookRow
from minimizer.store.views import Delivery, Message, Webhook

MAX_ATTEMPTS = 8
# Seconds to the second attempt; each later one takes three times as long, the last comes after three hours.
_FIRST_PAUSE = 10
_KEPT = timedelta(days=30)
_PRINTABLE = re.compile(r"[!-~]{1,2000}")


class Webhooks:
    """The part of the store that tells others."""

    _database: Database

    def create_webhook(self, project: str, url: str) -> tuple[Webhook, str]:
        """Add an address of a project; returns it and the secret that its messages are signed with.

        Raises:
            InvalidUrl: it is no http or https address.
            UnknownProject: there is no such project.
        """
        if not _is_address(url):
            raise InvalidUrl(url)
        with self._database.write() as session:
            row = WebhookRow(
                id=secrets.token_hex(6),
                project_number=find_project(session, project).number,
                url=url,
                secret=secrets.token_urlsafe(32),
                created_at=self._database.now(session),
            )
            session.add(row)
            return Webhook(row.id, project, row.url, row.created_at), row.secret

    def webhooks(self) -> list[Webhook]:
        """All webhooks, by project."""
        query = (
            select(WebhookRow, ProjectRow.name)
            .join(ProjectRow, ProjectRow.number == WebhookRow.project_number)
            .order_by(ProjectRow.name, WebhookRow.created_at)
        )
        with self._database.read() as session:
            return [Webhook(row.id, name, row.url, row.created_at) for row, name in session.execute(query)]

    def delete_webhook(self, webhook_id: str) -> None:
        """Forget an address and its messages.

        Raises:
            UnknownWebhook: there is none with this id.
        """
        with self._database.write() as session:
            session.delete(_find(session, webhook_id))

    def deliveries(self, webhook_id: str, limit: int = 100) -> list[Delivery]:
        """The messages to a webhook, the newest first.

        Raises:
            UnknownWebhook: there is none with this id.
        """
        with self._database.read() as session:
            _find(session, webhook_id)
            query = select(DeliveryRow).where(DeliveryRow.webhook_id == webhook_id)
            return [_delivery(row) for row in session.scalars(query.order_by(DeliveryRow.number.desc()).limit(limit))]

    def take_message(self, to_none_of: Collection[str] = ()) -> Message | None:
        """A message that is due, counted as one more attempt. With nothing due it writes nothing, not even a lock.

        One at a time: it is due again after a pause that is measured for one to be sent.

        Args:
            to_none_of: webhooks whose messages stay where they are.
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

    def settle_message(self, number: int, *, arrived: bool, answer: str) -> None:
        """Say what became of an attempt. What has not arrived is tried again, up to `MAX_ATTEMPTS` times."""
        with self._database.write() as session:
            row = session.get(DeliveryRow, number)
            if row is None:  # its webhook was deleted meanwhile
                return
            row.answer = bounds.text(answer, 255)
            if arrived:
                row.delivered_at = self._database.now(session)
            if arrived or row.attempts >= MAX_ATTEMPTS:
                row.next_at = None


def _is_address(url: str) -> bool:
    """Whether messages can be sent there: what Python's own client would stumble over at every attempt is none."""
    if not _PRINTABLE.fullmatch(url):
        return False
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:  # a port that is no number or too large, or half an IPv6 address
        return False
    return parts.scheme in ("http", "https") and bool(parts.hostname) and "@" not in parts.netloc and port != 0


def _find(session: Session, webhook_id: str) -> WebhookRow:
    row = session.get(WebhookRow, bounds.text(webhook_id, 16))
    if row is None:
        raise UnknownWebhook(webhook_id)
    return row


def _delivery(row: DeliveryRow) -> Delivery:
    return Delivery(row.number, row.job_id, row.created_at, row.attempts, row.next_at, row.delivered_at, row.answer)
