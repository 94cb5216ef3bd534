"""`minimizer admin` on a database of its own: what is done with it holds in the service."""

from __future__ import annotations

import os
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from minimizer.cli.admin import admin
from minimizer.errors import UserError
from minimizer.store import InvalidName, NameTaken, SchemaOutdated, Store, UnknownUser
from minimizer.vocabulary import Role, Scope
from web.access.passwords import is_right

Run = Callable[..., Result]


@pytest.fixture
def database_url(sqlite_url: str) -> str:
    """SQLite alone: the commands do not know which database they change."""
    return sqlite_url


@pytest.fixture
def run(sqlite_url: str, monkeypatch: pytest.MonkeyPatch) -> Run:
    monkeypatch.setenv("MINIMIZER_DATABASE_URL", sqlite_url)

    def run(line: str, typed: str | None = None) -> Result:
        result = CliRunner().invoke(admin, line.split(), input=typed)
        if result.exception and not isinstance(result.exception, SystemExit):
            raise result.exception
        return result

    return run


def test_a_secret_is_shown_to_an_operator_whom_the_system_has_no_name_for(
    run: Run, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a container that runs under any number, as OpenShift has it."""

    def nameless() -> str:
        raise KeyError("getpwuid(): uid not found: 1234")

    monkeypatch.setattr("getpass.getuser", nameless)
    run("user add anna")
    assert "mnz_" in run("token add anna").output
    assert store.audit.latest(1)[0].actor == f"cli:uid {os.getuid()}"


def test_a_user_is_added_changed_and_listed(run: Run, store: Store) -> None:
    run("project add compiler")
    run("user add anna --project compiler --role viewer --password", "correct horse battery\ncorrect horse battery\n")
    assert is_right(store, "anna", "correct horse battery") and not is_right(store, "anna", "wrong")
    run("user change anna --role member --join default --leave compiler")
    (anna,) = store.users.all()
    assert (anna.role, anna.projects, anna.active) == (Role.MEMBER, ("default",), True)
    run("user change anna --inactive")
    assert not is_right(store, "anna", "correct horse battery")
    assert "anna" in run("user list").output and "(inactive)" in run("user list").output


@pytest.mark.parametrize("line", ["audit --limit {}", "project keep compiler --bytes {}"])
def test_a_number_that_no_database_can_count_to_is_refused(run: Run, line: str) -> None:
    run("project add compiler")
    assert run(line.format(2**63)).exit_code == 2
    assert run(line.format(2**63 - 1)).exit_code == 0


def test_a_token_is_printed_once_and_revoked(run: Run, store: Store) -> None:
    run("user add anna")
    secret = run("token add anna --scope write --days 30").output.strip()
    assert (who := store.tokens.identify(secret)) is not None and (who.name, who.scope) == ("anna", Scope.WRITE)
    (token,) = store.tokens.all()
    assert token.expires_at is not None and token.expires_at - datetime.now(UTC) < timedelta(days=30)
    listed = run("token list").output
    assert token.id in listed and secret not in listed
    run(f"token revoke {token.id}")
    assert store.tokens.identify(secret) is None and "(revoked)" in run("token list").output


def test_a_name_does_not_steer_the_terminal(run: Run) -> None:
    run("user add anna")
    run("token add anna --name two\x1b[2J")
    assert "two?[2J" in run("token list").output


@pytest.mark.parametrize(
    ("line", "most"), [("project keep default --days 36501", 36500), ("token add anna --days 3651", 3650)]
)
def test_a_time_that_is_too_long_is_refused(run: Run, store: Store, line: str, most: int) -> None:
    run("user add anna")
    refused = run(line)
    assert refused.exit_code == 2 and f"1<=x<={most}" in refused.output
    assert store.projects.retire() == [] and store.tokens.all() == []


def test_projects_say_what_they_keep(run: Run, store: Store) -> None:
    run("project add compiler")
    run("project keep compiler --days 90")
    assert "keeps 90 days, all bytes" in run("project list").output
    run("project keep compiler --bytes 1000")
    assert "keeps all days, 1000 bytes" in run("project list").output
    run("project remove compiler")
    assert [project.name for project in store.projects.all()] == ["default"]


def test_what_was_done_is_audited_and_what_failed_is_not(run: Run) -> None:
    run("user add anna")
    with pytest.raises(NameTaken):
        run("user add anna")
    lines = run("audit").output.splitlines()
    assert len(lines) == 1 and "user.add anna" in lines[0] and " cli:" in lines[0]


@pytest.mark.parametrize(
    ("line", "error"),
    [
        ("user add Anna", InvalidName),
        ("user change nobody --role admin", UnknownUser),
        ("token add nobody", UnknownUser),
        ("project remove default", UserError),
    ],
)
def test_mistakes_are_told(run: Run, line: str, error: type[Exception]) -> None:
    with pytest.raises(error):
        run(line)


@pytest.mark.parametrize(
    "line",
    [
        "user add ben --project nowhere",
        "user change anna --join nowhere",
        "user change anna --leave nowhere",
        "project keep nowhere --days 1",
        "project remove nowhere",
    ],
)
def test_a_project_that_is_not_there_is_said_to_an_operator(run: Run, store: Store, line: str) -> None:
    run("user add anna")
    with pytest.raises(UserError, match="there is no project 'nowhere'; `minimizer admin project list` shows them"):
        run(line)
    assert [one.name for one in store.users.all()] == ["anna"]


def test_a_short_password_is_refused(run: Run, store: Store) -> None:
    with pytest.raises(UserError, match="at least 12"):
        run("user add anna --password", "short\nshort\n")
    assert store.users.all() == []


def test_a_database_without_tables_is_named(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "other.db").touch()
    monkeypatch.setenv("MINIMIZER_DATABASE_URL", f"sqlite:///{tmp_path}/other.db")
    with pytest.raises(SchemaOutdated, match="db upgrade"):
        run("user list")
