"""Users, and the projects that they are members of. Passwords arrive here already hashed by the caller."""

from __future__ import annotations

from collections.abc import Collection

from sqlalchemy import delete, select
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from minimizer.store.access.projects import check_name, find_project
from minimizer.store.errors import NameTaken, UnknownUser
from minimizer.store.tables import bounds
from minimizer.store.tables.database import Database
from minimizer.store.tables.models import MembershipRow, ProjectRow, SessionRow, UserRow
from minimizer.store.views import Identity, User
from minimizer.vocabulary import Role, Scope


class Users:
    """The part of the store for users."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def create(self, name: str, role: Role, projects: Collection[str] = (), password_hash: str | None = None) -> User:
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

    def get(self, name: str) -> User:
        """The user of this name.

        Raises:
            UnknownUser: there is none.
        """
        with self._database.read() as session:
            return _user(session, find_user(session, name))

    def all(self) -> list[User]:
        """All users by name."""
        with self._database.read() as session:
            return [_user(session, row) for row in session.scalars(select(UserRow).order_by(UserRow.name))]

    def change(
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
            row = find_user(session, name)
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


def find_user(session: Session, name: str) -> UserRow:
    """The row of a user.

    Raises:
        UnknownUser: there is no user of this name.
    """
    row = session.scalars(select(UserRow).where(UserRow.name == bounds.text(name, 64))).one_or_none()
    if row is None:
        raise UnknownUser(name)
    return row


def identity(session: Session, row: UserRow, scope: Scope, token: str | None) -> Identity:
    """The row of a user as an `Identity`, who has presented the token, if any."""
    role = Role(row.role)
    projects = None if role is Role.ADMIN else frozenset(_projects(session, row))
    return Identity(row.name, role, scope, projects, token)


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
