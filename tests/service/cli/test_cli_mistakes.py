"""Settings and databases that cannot be used: the command says so, says what to do, and exits as for any wrong usage."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from minimizer.cli import main
from minimizer.settings import settings_from_environment
from web.pages.form import fields
from worker.__main__ import main as worker

Run = Callable[[str], tuple[int, str]]

COMMANDS = ["db upgrade", "db backup copy.db", "admin user list", "serve"]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Run:
    monkeypatch.chdir(tmp_path)

    def call(line: str) -> tuple[int, str]:
        monkeypatch.setattr(sys, "argv", ["minimizer", *line.split()])
        with pytest.raises(SystemExit) as exit_:
            main()
        assert isinstance(exit_.value.code, int)
        return exit_.value.code, capsys.readouterr().err

    return call


@pytest.mark.parametrize("command", COMMANDS)
def test_a_variable_that_cannot_be_used_is_named(run: Run, command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MINIMIZER_PORT", "eighty")
    status, said = run(command)
    assert status == 2
    assert said.startswith("Error: MINIMIZER_PORT: ") and "docs/settings.md" in said


@pytest.mark.parametrize(("lease", "heartbeat"), [("2", None), ("1", "0.6")])
def test_a_lease_that_ends_before_it_is_renewed_is_refused(
    run: Run, lease: str, heartbeat: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MINIMIZER_LEASE_SECONDS", lease)
    if heartbeat is not None:
        monkeypatch.setenv("MINIMIZER_HEARTBEAT_SECONDS", heartbeat)
    status, said = run("serve")
    assert status == 2 and f"more than half of MINIMIZER_LEASE_SECONDS, which is {lease}" in said


@pytest.mark.parametrize(
    ("variable", "url"),
    [
        ("MINIMIZER_BROKER_URL", "redis://:hunter/two@127.0.0.1:6379/0"),
        ("MINIMIZER_BROKER_URL", "sentinel://:fine@a:1/0;sentinel://:hunter#two@b:2/0"),
        ("MINIMIZER_DATABASE_URL", "postgresql://somebody:hunter@two@127.0.0.1/minimizer"),
    ],
)
def test_an_address_is_refused_without_a_part_of_its_password(
    run: Run, variable: str, url: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(variable, url)
    for status, said in (run("serve"), (worker(), capsys.readouterr().err)):
        assert status == 2
        assert variable in said and "password" in said
        assert "hunter" not in said and "two" not in said


def test_a_worker_names_it_too(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("MINIMIZER_PORT", "eighty")
    assert worker() == 2
    assert "MINIMIZER_PORT" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["db upgrade", "admin user list", "serve"])
def test_a_database_that_does_not_answer_is_no_bug_of_ours(
    run: Run, command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MINIMIZER_DATABASE_URL", "postgresql+psycopg://somebody:secret@127.0.0.1:9/minimizer")
    status, said = run(command)
    assert status == 2
    assert "the database cannot be used" in said and "port 9" in said and "MINIMIZER_DATABASE_URL" in said
    assert "secret" not in said and "bug" not in said


@pytest.mark.parametrize("command", ["db upgrade", "db backup copy.db", "admin user list", "serve"])
def test_a_file_that_is_no_database_is_no_bug_of_ours(
    run: Run, command: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "notes.txt").write_text("These are notes, and there are many of them.\n" * 100)
    monkeypatch.setenv("MINIMIZER_DATABASE_URL", f"sqlite:///{tmp_path}/notes.txt")
    status, said = run(command)
    assert status == 2
    assert "file is not a database" in said


@pytest.mark.parametrize("command", ["db backup copy.db", "admin user list", "admin project keep default"])
def test_a_database_that_is_not_there_is_not_made(run: Run, command: str, tmp_path: Path) -> None:
    status, said = run(command)
    assert status == 2
    assert "there is no database at" in said and "MINIMIZER_DATA_DIR" in said and "db upgrade" in said
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("url", ["minimizer.db", "mysql://root:secret@127.0.0.1/x", "postgresql://h:secret/x"])
def test_what_is_no_address_of_a_database_is_said_to_be_none(
    run: Run, command: str, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MINIMIZER_DATABASE_URL", url)
    status, said = run(command)
    assert status == 2
    assert "MINIMIZER_DATABASE_URL" in said and "postgresql+psycopg://" in said and "secret" not in said


@pytest.mark.parametrize("command", ["db upgrade", "admin user list", "serve"])
def test_a_data_folder_that_cannot_be_is_named(
    run: Run, command: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "taken").touch()
    monkeypatch.setenv("MINIMIZER_DATA_DIR", str(tmp_path / "taken"))
    status, said = run(command)
    assert status == 2
    assert str(tmp_path / "taken") in said and "MINIMIZER_DATA_DIR" in said


@pytest.mark.parametrize(
    "value", ["/opt/old/bin/python", "old=/bin/a,empty= ", "=/bin/a", "old=/bin/a,new", "a=/b,a=/c"]
)
@pytest.mark.parametrize("command", ["serve", "doctor"])
def test_toolchains_that_are_none_are_refused(
    run: Run, command: str, value: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MINIMIZER_TOOLCHAINS", value)
    status, said = run(command)
    assert status == 2
    assert said.startswith("Error: MINIMIZER_TOOLCHAINS: ") and "docs/settings.md" in said


def test_toolchains_are_the_same_for_everybody(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MINIMIZER_TOOLCHAINS", "old=/opt/old/bin/python,")
    settings = settings_from_environment()
    (choice,) = [field for field in fields(settings) if field.name == "toolchain"]
    assert [value for value, _ in choice.choices if value] == list(settings.interpreters) == ["old"]
