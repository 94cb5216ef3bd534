"""Personal API tokens.

A secret has 256 random bits, so a fast digest of it is as safe as a slow one.
"""

from __future__ import annotations

import hashlib
import logging
import secrets
from datetime import datetime, timedelta

from sqlalchemy import delete, select, update
from sqlalchemy.exc import SQLAlchemyError

from minimizer.store.access.projects import DEFAULT_PROJECT
from minimizer.store.access.users import Users, find_user, identity
from minimizer.store.errors import NameTaken, UnknownToken
from minimizer.store.tables import bounds
from minimizer.store.tables.database import Database
from minimizer.store.tables.models import SessionRow, TokenRow, UserRow
from minimizer.store.views import Identity, Token
from minimizer.vocabulary import Role, Scope

log = logging.getLogger(__name__)

# A fixed prefix, so that secret scanners recognise leaked tokens.
TOKEN_PREFIX = "mnz_"
# Interval of updates of a token's last use: enough to see that it is in use, without a write for every request.
_USED_EVERY = timedelta(minutes=1)


class Tokens:
    """The part of the store for tokens."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def create_first_admin(self, name: str = "admin") -> str | None:
        """Create an admin if there are no users yet, and return the secret of its token; of several callers only one gets it."""
        with self._database.read() as session:
            if session.scalars(select(UserRow.number).limit(1)).one_or_none() is not None:
                return None
        try:
            Users(self._database).create(name, Role.ADMIN, [DEFAULT_PROJECT])
        except NameTaken:
            return None
        return self.create(name, "first token", Scope.WRITE)[1]

    def create(
        self, user: str, name: str, scope: Scope, expires_at: datetime | None = None, *, asked_with: str | None = None
    ) -> tuple[Token, str]:
        """Create a token; returns it and its secret, which cannot be read again.

        Args:
            asked_with: id of the token with which this one is requested; the new one expires no later.

        Raises:
            UnknownUser: there is no such user.
        """
        secret = TOKEN_PREFIX + secrets.token_urlsafe(32)
        with self._database.write() as session:
            if asked_with is not None and (end := session.get_one(TokenRow, asked_with).expires_at) is not None:
                expires_at = end if expires_at is None else min(end, expires_at)
            row = TokenRow(
                id=secrets.token_hex(6),
                user_number=find_user(session, user).number,
                name=bounds.text(name, 100),
                sha256=digest(secret),
                scope=scope,
                created_at=self._database.now(session),
                expires_at=expires_at,
            )
            session.add(row)
            return _token(row, user), secret

    def all(self, user: str | None = None) -> list[Token]:
        """The tokens of a user, or of all users, newest first."""
        query = select(TokenRow, UserRow.name).join(UserRow, UserRow.number == TokenRow.user_number)
        if user is not None:
            query = query.where(UserRow.name == user)
        with self._database.read() as session:
            ordered = query.order_by(TokenRow.created_at.desc(), TokenRow.id)
            return [_token(row, name) for row, name in session.execute(ordered)]

    def revoke(self, token_id: str, user: str | None = None) -> None:
        """Revoke a token and end its sessions; a token that is already revoked is unchanged.

        Args:
            user: if given, the token must belong to this user.

        Raises:
            UnknownToken: there is no such token, or it belongs to another user.
        """
        with self._database.write() as session:
            query = select(TokenRow).join(UserRow, UserRow.number == TokenRow.user_number)
            query = query.where(TokenRow.id == bounds.text(token_id, 16))
            row = session.scalars(query if user is None else query.where(UserRow.name == user)).one_or_none()
            if row is None:
                raise UnknownToken(token_id)
            row.revoked_at = row.revoked_at or self._database.now(session)
            session.execute(delete(SessionRow).where(SessionRow.token_id == row.id))

    def identify(self, secret: str) -> Identity | None:
        """The identity of a valid token's user; None if the token is unknown, expired or revoked, or the user inactive."""
        query = (
            select(TokenRow, UserRow)
            .join(UserRow, UserRow.number == TokenRow.user_number)
            .where(TokenRow.sha256 == digest(secret))
        )
        with self._database.read() as session:
            found = session.execute(query).one_or_none()
            now = self._database.now(session)
            if found is None or not is_valid(found[0], now) or not found[1].active:
                return None
            token, user = found
            who = identity(session, user, Scope(token.scope), token.id)
            used = token.last_used_at
        if used is None or now - used > _USED_EVERY:
            self._note_use(token.id, now)
        return who

    def _note_use(self, token_id: str, now: datetime) -> None:
        try:
            with self._database.write() as session:
                session.execute(update(TokenRow).where(TokenRow.id == token_id).values(last_used_at=now))
        except SQLAlchemyError:  # while writes are impossible, a token still authorizes reads
            log.warning("the use of token %s was not noted", token_id, exc_info=True)


def is_valid(token: TokenRow, now: datetime) -> bool:
    """Whether a token is neither revoked nor expired."""
    return token.revoked_at is None and (token.expires_at is None or now < token.expires_at)


def digest(secret: str) -> str:
    """The digest under which a secret is stored."""
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()


def _token(row: TokenRow, user: str) -> Token:
    return Token(
        row.id, user, row.name, Scope(row.scope), row.created_at, row.expires_at, row.revoked_at, row.last_used_at
    )
