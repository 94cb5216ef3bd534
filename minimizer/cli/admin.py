"""``minimizer admin``: users, their tokens, projects and the audit log, straight in the database of the service."""

from __future__ import annotations

import getpass
import os
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta

import click

from minimizer.cli.db import require_there
from minimizer.cli.progress import printable
from minimizer.errors import UserError
from minimizer.settings import settings_from_environment
from minimizer.store import DEFAULT_PROJECT, Store
from minimizer.store.tables.migrate import require_current
from minimizer.vocabulary import Role, Scope

_ROLE = click.Choice([str(role) for role in Role])
_SCOPE = click.Choice([str(scope) for scope in Scope])
_KEEP_DAYS = click.IntRange(1, 36_500)
"""A time that a calendar has, counted back from today."""
_TOKEN_DAYS = click.IntRange(1, 3650)
"""As REST and the page have it."""
_COUNT = click.IntRange(1, 2**63 - 1)
"""The maximum of a database integer."""


@click.group()
def admin() -> None:
    """Look after users, tokens and projects (in MINIMIZER_DATABASE_URL, else SQLite in MINIMIZER_DATA_DIR)."""


@admin.group()
def user() -> None:
    """Who may come in."""


@user.command("add")
@click.argument("name")
@click.option("--role", type=_ROLE, default=str(Role.MEMBER), show_default=True, help="What the user may do.")
@click.option("--project", "projects", multiple=True, metavar="NAME", help="A project to let the user into.")
@click.option("--password", "ask", is_flag=True, help="Ask for a password; without one the user signs in with tokens.")
def add_user(name: str, role: str, projects: tuple[str, ...], ask: bool) -> None:
    """Add a user, of the default project if no other is named."""
    with _store("user.add", name) as store:
        _require_projects(store, projects)
        made = store.users.create(name, Role(role), projects or (DEFAULT_PROJECT,), _ask_password() if ask else None)
    click.echo(f"{made.name} is a {made.role} of {', '.join(made.projects)}.")


@user.command("change")
@click.argument("name")
@click.option("--role", type=_ROLE, help="The new role.")
@click.option("--join", multiple=True, metavar="PROJECT", help="A project to let the user into.")
@click.option("--leave", multiple=True, metavar="PROJECT", help="A project to keep the user out of.")
@click.option("--password", "ask", is_flag=True, help="Ask for a new password.")
@click.option("--active/--inactive", default=None, help="Whether the user may come in at all.")
def change_user(
    name: str, role: str | None, join: tuple[str, ...], leave: tuple[str, ...], ask: bool, active: bool | None
) -> None:
    """Change what a user may do."""
    with _store("user.change", name) as store:
        _require_projects(store, (*join, *leave))
        store.users.change(
            name,
            role=None if role is None else Role(role),
            active=active,
            password_hash=_ask_password() if ask else None,
            join=join,
            leave=leave,
        )


@user.command("list")
def list_users() -> None:
    """Show all users."""
    with _store() as store:
        for one in store.users.all():
            state = "" if one.active else " (inactive)"
            click.echo(f"{one.name:<24} {one.role:<8} {', '.join(one.projects) or '-'}{state}")


@admin.group()
def token() -> None:
    """Keys for programs."""


@token.command("add")
@click.argument("user_name", metavar="USER")
@click.option("--name", default="made by an admin", show_default=True, help="What it is for.")
@click.option("--scope", type=_SCOPE, default=str(Scope.READ), show_default=True, help="How far it goes.")
@click.option("--days", type=_TOKEN_DAYS, default=90, show_default=True, help="Days until it expires.")
def add_token(user_name: str, name: str, scope: str, days: int) -> None:
    """Make a token for USER; it is printed once and can never be read again."""
    with _store("token.add", user_name) as store:
        _, secret = store.tokens.create(user_name, name, Scope(scope), datetime.now(UTC) + timedelta(days=days))
    click.echo(secret)


@token.command("revoke")
@click.argument("token_id")
def revoke_token(token_id: str) -> None:
    """End a token, and the browser sessions it has opened."""
    with _store("token.revoke", token_id) as store:
        store.tokens.revoke(token_id)


@token.command("list")
def list_tokens() -> None:
    """Show all tokens, without their secrets."""
    with _store() as store:
        for one in store.tokens.all():
            expires = "never" if one.expires_at is None else f"{one.expires_at:%Y-%m-%d}"
            used = "never" if one.last_used_at is None else f"{one.last_used_at:%Y-%m-%d %H:%M}"
            state = " (revoked)" if one.revoked_at else ""
            click.echo(
                f"{one.id} {one.user:<24} {one.scope:<6} expires {expires}, used {used}: {printable(one.name)}{state}"
            )


@admin.group()
def project() -> None:
    """What jobs belong to."""


@project.command("add")
@click.argument("name")
def add_project(name: str) -> None:
    """Add a project."""
    with _store("project.add", name) as store:
        store.projects.create(name)


@project.command("keep")
@click.argument("name")
@click.option("--days", type=_KEEP_DAYS, help="Days after which a job that has ended is deleted; default: never.")
@click.option("--bytes", "size", type=_COUNT, help="Room above which the oldest go; default: no limit.")
def keep_project(name: str, days: int | None, size: int | None) -> None:
    """Say how long and how much a project keeps. What is pinned is never deleted."""
    with _store("project.keep", name) as store:
        _require_projects(store, (name,))
        store.projects.keep(name, days=days, size=size)


@project.command("remove")
@click.argument("name")
def remove_project(name: str) -> None:
    """Forget a project that has no jobs."""
    with _store("project.remove", name) as store:
        _require_projects(store, (name,))
        store.projects.delete(name)


@project.command("list")
def list_projects() -> None:
    """Show all projects, what they keep, and who is in."""
    with _store() as store:
        for one in store.projects.all():
            kept = f"{one.keep_days or 'all'} days, {one.keep_bytes or 'all'} bytes"
            click.echo(f"{one.name:<24} keeps {kept}: {', '.join(one.members) or '-'}")


@admin.command()
@click.option("--limit", type=_COUNT, default=50, show_default=True, help="Entries, the newest first.")
def audit(limit: int) -> None:
    """Show who has changed what."""
    with _store() as store:
        for entry in store.audit.latest(limit):
            where = f" from {entry.address}" if entry.address else ""
            click.echo(f"{entry.time:%Y-%m-%d %H:%M:%S} {entry.actor} {entry.action} {entry.subject}{where}")


@contextmanager
def _store(action: str | None = None, subject: str = "") -> Iterator[Store]:
    """The service's store; an action that went well is remembered in the audit log."""
    settings = settings_from_environment()
    require_there(settings.resolved_database_url)
    require_current(settings.resolved_database_url)
    actor = f"cli:{_user()}"
    store = Store.open(settings.resolved_database_url)
    try:
        yield store
        if action is not None:
            store.audit.record(actor, action, subject)
    finally:
        store.close()


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # in a container, often: a number without a name
        return f"uid {os.getuid()}"


def _require_projects(store: Store, names: tuple[str, ...]) -> None:
    """Refuse a missing project with a message for operators; the store's message is for users without access.

    Raises:
        UserError: there is none of this name.
    """
    known = {project.name for project in store.projects.all()}
    if missing := [name for name in names if name not in known]:
        raise UserError(f"there is no project {missing[0]!r}; `minimizer admin project list` shows them")


def _ask_password() -> str:
    # Imported here: it brings werkzeug, which the other commands do without.
    from web.access.passwords import hash_password

    return hash_password(click.prompt("Password", hide_input=True, confirmation_prompt=True))
