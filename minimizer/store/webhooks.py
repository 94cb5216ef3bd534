"""Webhooks: addresses that get a message when a job ends, and the delivery state of every message."""

from __future__ import annotations

import re
import secrets

from sqlalchemy import select
from sqlalchemy.orm import Session

from minimizer.store.access.projects import find_project
from minimizer.store.errors import InvalidUrl, UnknownWebhook
from minimizer.store.tables import bounds
from minimizer.store.tables.database import Database
from minimizer.store.tables.models import DeliveryRow, ProjectRow, WebhookRow
from minimizer.store.views import Delivery, Webhook

MAX_URL = 2000
_PORT = "(?:6553[0-5]|655[0-2][0-9]|65[0-4][0-9]{2}|6[0-4][0-9]{3}|[1-5][0-9]{4}|[1-9][0-9]{0,3})"
_GROUP = "[0-9A-Fa-f]{1,4}"
# A "::" stands for at least one group, wherever it is.
_SHORT = "|".join(
    f"{_GROUP}(?::{_GROUP}){{{left - 1}}}::(?:{_GROUP}(?::{_GROUP}){{0,{6 - left}}})?" for left in range(1, 7)
)
_IPV6 = f"(?:{_GROUP}(?::{_GROUP}){{7}}|::(?:{_GROUP}(?::{_GROUP}){{0,6}})?|{_SHORT}|{_GROUP}(?::{_GROUP}){{6}}::)"
_HOST = rf"(?:\[{_IPV6}\]|(?:(?![@/?#\[\]:])[!-~])+)"
ADDRESS = f"^[Hh][Tt][Tt][Pp][Ss]?://{_HOST}(?::{_PORT}?)?(?:[/?#][!-~]*)?$"
"""An address that messages can be sent to, as a pattern that JSON Schema reads as well. Python takes some more apart, and sends to a part of them."""


class Webhooks:
    """The part of the store for webhooks."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def create(self, project: str, url: str) -> tuple[Webhook, str]:
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

    def all(self) -> list[Webhook]:
        """All webhooks, by project."""
        query = (
            select(WebhookRow, ProjectRow.name)
            .join(ProjectRow, ProjectRow.number == WebhookRow.project_number)
            .order_by(ProjectRow.name, WebhookRow.created_at)
        )
        with self._database.read() as session:
            return [Webhook(row.id, name, row.url, row.created_at) for row, name in session.execute(query)]

    def delete(self, webhook_id: str) -> None:
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
    return len(url) <= MAX_URL and re.fullmatch(ADDRESS, url) is not None


def _find(session: Session, webhook_id: str) -> WebhookRow:
    row = session.get(WebhookRow, bounds.text(webhook_id, 16))
    if row is None:
        raise UnknownWebhook(webhook_id)
    return row


def _delivery(row: DeliveryRow) -> Delivery:
    return Delivery(row.number, row.job_id, row.created_at, row.attempts, row.next_at, row.delivered_at, row.answer)
