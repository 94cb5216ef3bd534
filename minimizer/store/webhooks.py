"""Webhooks: addresses that get a message when a job ends, and the delivery state of every message."""

from __future__ import annotations

import re
import secrets
from urllib.parse import urlsplit

from sqlalchemy import select
from sqlalchemy.orm import Session

from minimizer.store.access.projects import find_project
from minimizer.store.errors import InvalidUrl, UnknownWebhook
from minimizer.store.tables import bounds
from minimizer.store.tables.database import Database
from minimizer.store.tables.models import DeliveryRow, ProjectRow, WebhookRow
from minimizer.store.views import Delivery, Webhook

_PRINTABLE = re.compile(r"[!-~]{1,2000}")


class Webhooks:
    """The part of the store for webhooks."""

    _database: Database

    def create_webhook(self, project: str, url: str) -> tuple[Webhook, str]:
        """Add a webhook to a project; returns it and the secret with which its messages are signed.

        Raises:
            InvalidUrl: it is not an http or https URL.
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
        """Delete a webhook and its messages.

        Raises:
            UnknownWebhook: there is none with this id.
        """
        with self._database.write() as session:
            session.delete(_find(session, webhook_id))

    def deliveries(self, webhook_id: str, limit: int = 100) -> list[Delivery]:
        """The messages to a webhook, newest first.

        Raises:
            UnknownWebhook: there is none with this id.
        """
        with self._database.read() as session:
            _find(session, webhook_id)
            query = select(DeliveryRow).where(DeliveryRow.webhook_id == webhook_id)
            return [_delivery(row) for row in session.scalars(query.order_by(DeliveryRow.number.desc()).limit(limit))]


def _is_address(url: str) -> bool:
    """Whether messages can be sent to a URL; False for URLs that Python's HTTP client would reject at every attempt."""
    if not _PRINTABLE.fullmatch(url):
        return False
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:  # an invalid port, or an incomplete IPv6 address
        return False
    return parts.scheme in ("http", "https") and bool(parts.hostname) and "@" not in parts.netloc and port != 0


def _find(session: Session, webhook_id: str) -> WebhookRow:
    row = session.get(WebhookRow, bounds.text(webhook_id, 16))
    if row is None:
        raise UnknownWebhook(webhook_id)
    return row


def _delivery(row: DeliveryRow) -> Delivery:
    return Delivery(row.number, row.job_id, row.created_at, row.attempts, row.next_at, row.delivered_at, row.answer)
