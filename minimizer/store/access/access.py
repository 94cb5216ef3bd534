"""Authentication data: users, their tokens, and sessions of signed-in browsers.

A secret has 256 random bits, so a fast digest of it is as safe as a slow one. Passwords are not like that, and arrive here already
hashed by the caller.
"""

from __future__ import annotations

import hashlib
import logging
import secrets
from collections.abc import Collection
from datetime import datetime, timedelta

from sqlalchemy import delete, select, update
from sqlalchemy.exc import IntegrityError, SQLAlchemyError
from sqlalchemy.orm import Session

from minimizer.store.access.projects import DEFAULT_PROJECT, check_name, find_project
from minimizer.store.errors import NameTaken, UnknownToken, UnknownUser
from minimizer.store.tables import bounds
from minimizer.store.tables.database import Database
from minimizer.store.tables.models import MembershipRow, ProjectRow, SessionRow, TokenRow, UserRow
from minimizer.store.views import Identity, Token, User
from minimizer.vocabulary import Role, Scope

log = logging.getLogger(__name__)

# A fixed prefix, so that secret scanners recognise leaked tokens.
TOKEN_PREFIX = "mnz_"
# Interval of updates of a token's last use: enough to see that it is in use, without a write for every request.
_USED_EVERY = timedelta(minutes=1)
_SESSION = timedelta(days=14)
"""Lifetime of a browser session."""


class Access:
    """The part of the store for users, tokens and sessions."""

    _database: Database

    def create_user(
        self, name: str, role: Role, projects: Collection[str] = (), password_hash: str | None = None
    ) -> User:
        """Add a user.

        Raises:
            InvalidName, NameTaken: choose another name.
            UnknownProject: create the project first.
        """
        check_name(name)
        try:
            with self._database.write() as session:
                row = UserRow(
                    name=name,
                    role=role,
                    password_hash=password_hash,
                    active=True,
                    created_at=self._database.now(session),
                )
                session.add(row)
                session.flush()
                for project in projects:
                    number = find_project(session, project).number
                    session.add(MembershipRow(user_number=row.number, project_number=number))
                session.flush()
                return _user(session, row)
        except IntegrityError:
            raise NameTaken("user", name) from None

    def create_first_admin(self, name: str = "admin") -> str | None:
        """Create an admin if there are no users yet, and return the secret of its token; of several callers only one gets it."""
        with self._database.read() as session:
            if session.scalars(select(UserRow.number).limit(1)).one_or_none() is not None:
                return None
        try:
            self.create_user(name, Role.ADMIN, [DEFAULT_PROJECT])
        except NameTaken:
            return None
        return self.create_token(name, "first token", Scope.WRITE)[1]

    def user(self, name: str) -> User:
        """The user of this name.

        Raises:
            UnknownUser: there is none.
        """
        with self._database.read() as session:
            return _user(session, _find_user(session, name))

    def users(self) -> list[User]:
        """All users by name."""
        with self._database.read() as session:
            return [_user(session, row) for row in session.scalars(select(UserRow).order_by(UserRow.name))]

    def change_user(
        self,
        name: str,
        *,
        role: Role | None = None,
        active: bool | None = None,
        password_hash: str | None = None,
        join: Collection[str] = (),
        leave: Collection[str] = (),
    ) -> User:
        """Change the given fields. A user who is deactivated or gets a new password is signed out everywhere.

        Raises:
            UnknownUser, UnknownProject: there is no user or project of this name.
        """
        with self._database.write() as session:
            row = _find_user(session, name)
            row.role = role or row.role
            row.active = row.active if active is None else active
            row.password_hash = password_hash or row.password_hash
            for project in join:
                number = find_project(session, project).number
                session.merge(MembershipRow(user_number=row.number, project_number=number))
            gone = [find_project(session, project).number for project in leave]
            session.execute(
                delete(MembershipRow).where(
                    MembershipRow.user_number == row.number, MembershipRow.project_number.in_(gone)
                )
            )
            if password_hash is not None or active is False:
                session.execute(delete(SessionRow).where(SessionRow.user_number == row.number))
            session.flush()
            return _user(session, row)

    def password_hash(self, name: str) -> str | None:
        """The password hash of an active user; ``None`` if there is no such user or the user has no password."""
        with self._database.read() as session:
            query = select(UserRow.password_hash).where(UserRow.name == bounds.text(name, 64), UserRow.active)
            return session.scalars(query).one_or_none()

    def create_token(
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
                user_number=_find_user(session, user).number,
                name=bounds.text(name, 100),
                sha256=_sha(secret),
                scope=scope,
                created_at=self._database.now(session),
                expires_at=expires_at,
            )
            session.add(row)
            return _token(row, user), secret

    def tokens(self, user: str | None = None) -> list[Token]:
        """The tokens of a user, or of all users, newest first."""
        query = select(TokenRow, UserRow.name).join(UserRow, UserRow.number == TokenRow.user_number)
        if user is not None:
            query = query.where(UserRow.name == user)
        with self._database.read() as session:
            ordered = query.order_by(TokenRow.created_at.desc(), TokenRow.id)
            return [_token(row, name) for row, name in session.execute(ordered)]

    def revoke_token(self, token_id: str, user: str | None = None) -> None:
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

    def identify_token(self, secret: str) -> Identity | None:
        """The identity of a valid token's user; None if the token is unknown, expired or revoked, or the user inactive."""
        query = (
            select(TokenRow, UserRow)
            .join(UserRow, UserRow.number == TokenRow.user_number)
            .where(TokenRow.sha256 == _sha(secret))
        )
        with self._database.read() as session:
            found = session.execute(query).one_or_none()
            now = self._database.now(session)
            if found is None or not _counts(found[0], now) or not found[1].active:
                return None
            token, user = found
            identity = _identity(session, user, Scope(token.scope), token.id)
            used = token.last_used_at
        if used is None or now - used > _USED_EVERY:
            self._note_use(token.id, now)
        return identity

    def _note_use(self, token_id: str, now: datetime) -> None:
        try:
            with self._database.write() as session:
                session.execute(update(TokenRow).where(TokenRow.id == token_id).values(last_used_at=now))
        except SQLAlchemyError:  # while no write is possible, a token still opens what can be read
            log.warning("the use of token %s was not noted", token_id, exc_info=True)

    def create_session(self, user: str, token_id: str | None = None) -> str:
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
                    sha256=_sha(secret),
                    user_number=_find_user(session, user).number,
                    token_id=token_id,
                    created_at=now,
                    expires_at=now + _SESSION,
                )
            )
        return secret

    def identify_session(self, secret: str) -> Identity | None:
        """The identity of a session's user; None if the session has ended, or its user or token is no longer valid."""
        query = (
            select(SessionRow, UserRow, TokenRow)
            .join(UserRow, UserRow.number == SessionRow.user_number)
            .outerjoin(TokenRow, TokenRow.id == SessionRow.token_id)
            .where(SessionRow.sha256 == _sha(secret))
        )
        with self._database.read() as session:
            found = session.execute(query).one_or_none()
            if found is None:
                return None
            row, user, token = found
            now = self._database.now(session)
            if row.expires_at < now or not user.active or (token is not None and not _counts(token, now)):
                return None
            return _identity(session, user, Scope(token.scope) if token else Scope.WRITE, token.id if token else None)

    def end_session(self, secret: str) -> None:
        """Sign a browser out."""
        with self._database.write() as session:
            session.execute(delete(SessionRow).where(SessionRow.sha256 == _sha(secret)))


def _find_user(session: Session, name: str) -> UserRow:
    row = session.scalars(select(UserRow).where(UserRow.name == bounds.text(name, 64))).one_or_none()
    if row is None:
        raise UnknownUser(name)
    return row


def _projects(session: Session, user: UserRow) -> tuple[str, ...]:
    query = (
        select(ProjectRow.name)
        .join(MembershipRow, MembershipRow.project_number == ProjectRow.number)
        .where(MembershipRow.user_number == user.number)
    )
    return tuple(session.scalars(query.order_by(ProjectRow.name)))


def _user(session: Session, row: UserRow) -> User:
    return User(
        row.name, Role(row.role), row.active, row.password_hash is not None, _projects(session, row), row.created_at
    )


def _identity(session: Session, row: UserRow, scope: Scope, token: str | None) -> Identity:
    role = Role(row.role)
    projects = None if role is Role.ADMIN else frozenset(_projects(session, row))
    return Identity(row.name, role, scope, projects, token)


def _token(row: TokenRow, user: str) -> Token:
    return Token(
        row.id, user, row.name, Scope(row.scope), row.created_at, row.expires_at, row.revoked_at, row.last_used_at
    )


def _counts(token: TokenRow, now: datetime) -> bool:
    return token.revoked_at is None and (token.expires_at is None or now < token.expires_at)


def _sha(secret: str) -> str:
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()
