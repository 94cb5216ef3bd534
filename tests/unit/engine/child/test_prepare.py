"""What of our environment a script may see."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from minimizer.engine.child import prepare
from minimizer.engine.child.prepare import granted
from minimizer.options import Options
from minimizer.sandbox import choose_sandbox
from minimizer.settings import Settings


@pytest.fixture
def notes(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    monkeypatch.setenv("MINIMIZER_DATABASE_URL", "postgresql://user:secret@host/db")
    monkeypatch.setenv("HF_HOME", "/models")
    return []


def test_a_service_gives_nothing_away_by_default(notes: list[str]) -> None:
    options = Options(env=["HF_HOME", "MINIMIZER_DATABASE_URL"])

    assert granted(options, Settings(), notes.append) == {}
    assert len(notes) == 2
    assert "secret" not in "".join(notes)


@pytest.mark.parametrize("allowed", ["*", "HF_HOME", "OTHER, HF_HOME"])
def test_what_is_allowed_is_passed_on(notes: list[str], allowed: str) -> None:
    options = Options(env=["HF_HOME", "NOT_SET_HERE"])

    assert granted(options, Settings(script_env=allowed), notes.append).get("HF_HOME") == "/models"


def test_settings_of_the_service_are_never_passed_on(notes: list[str]) -> None:
    options = Options(env=["MINIMIZER_DATABASE_URL"])

    assert granted(options, Settings(script_env="*,MINIMIZER_DATABASE_URL"), notes.append) == {}


def test_the_working_directory_is_a_copy_that_may_be_written_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(prepare, "COPIED_BYTES", 10)
    home, scratch = tmp_path / "home", tmp_path / "scratch"
    (home / "data").mkdir(parents=True)
    scratch.mkdir()
    script = home / "script.py"
    for name, size in (("a.json", 4), ("large.pt", 100), ("script.py", 5)):
        (home / name).write_bytes(b"x" * size)

    work = prepare.open_place(
        script,
        sandbox=choose_sandbox("off"),
        scratch=scratch,
        python=Path(sys.executable),
        binds=[],
        network=False,
        memory_bytes=1 << 30,
        environment={},
    ).folder("work")

    assert {e.name: e.is_symlink() for e in work.iterdir()} == {
        "a.json": False,
        "script.py": False,
        "large.pt": True,
        "data": True,
    }
    (work / "a.json").write_bytes(b"changed")
    assert (home / "a.json").read_bytes() == b"xxxx"
    assert (work / "large.pt").read_bytes() == b"x" * 100
