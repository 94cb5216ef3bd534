"""Sessions of signed-in browsers. Their secrets are made and stored like those of tokens."""

from __future__ import annotations

import secrets
from datetime import timedelta

from sqlalchemy import delete, select

from minimizer.store.access.tokens import digest, is_valid
from minimizer.store.access.users import find_user, identity
from minimizer.store.tables.database import Database
from minimizer.store.tables.models import SessionRow, TokenRow, UserRow
from minimizer.store.views import Identity
from minimizer.vocabulary import Scope

_SESSION = timedelta(days=14)
"""Lifetime of a browser session."""


class Sessions:
    """The part of the store for sessions of browsers."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def create(self, user: str, token_id: str | None = None) -> str:
        """Sign a browser in; returns the secret for its cookie. Also deletes expired sessions.

        Raises:
            UnknownUser: there is no such user.
        """
        secret = secrets.token_urlsafe(32)
        with self._database.write() as session:
            now = self._database.now(session)
            session.execute(delete(SessionRow).where(SessionRow.expires_at < now))
            session.add(
                SessionRow(
                    sha256=digest(secret),
                    user_number=find_user(session, user).number,
                    token_id=token_id,
                    created_at=now,
                    expires_at=now + _SESSION,
                )
            )
        return secret

    def identify(self, secret: str) -> Identity | None:
        """The identity of a session's user; None if the session has ended, or its user or token is no longer valid."""
        query = (
            select(SessionRow, UserRow, TokenRow)
            .join(UserRow, UserRow.number == SessionRow.user_number)
            .outerjoin(TokenRow, TokenRow.id == SessionRow.token_id)
            .where(SessionRow.sha256 == digest(secret))
        )
        with self._database.read() as session:
            found = session.execute(query).one_or_none()
            if found is None:
                return None
            row, user, token = found
            now = self._database.now(session)
            if row.expires_at < now or not user.active or (token is not None and not is_valid(token, now)):
                return None
            return identity(session, user, Scope(token.scope) if token else Scope.WRITE, token.id if token else None)

    def end(self, secret: str) -> None:
        """Sign a browser out."""
        with self._database.write() as session:
            session.execute(delete(SessionRow).where(SessionRow.sha256 == digest(secret)))
