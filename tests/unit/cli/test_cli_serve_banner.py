"""What `minimizer serve` says where no sandbox holds the scripts it is sent."""

from __future__ import annotations

import os
import pwd
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from minimizer.cli.serve import who_may_run_code
from minimizer.sandbox import bubblewrap
from minimizer.settings import Settings

URL = "http://127.0.0.1:8000"


@pytest.fixture
def without_bubblewrap(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    cached = (bubblewrap.require_bubblewrap, bubblewrap.bwrap, bubblewrap.bwrap_help)
    monkeypatch.setenv("PATH", str(tmp_path))
    for each in cached:
        each.cache_clear()
    yield
    for each in cached:
        each.cache_clear()


@pytest.mark.usefixtures("without_bubblewrap")
def test_who_could_run_code_and_how_to_end_that() -> None:
    warning = who_may_run_code(Settings(), URL)
    name = pwd.getpwuid(os.getuid()).pw_name
    assert "since bubblewrap is not installed" in warning
    assert f"program of this machine that reaches {URL} can run code as {name}" in warning
    assert "apt-get install bubblewrap" in warning


def test_a_sandbox_that_was_switched_off_is_told_of() -> None:
    assert "MINIMIZER_SANDBOX is off" in who_may_run_code(Settings(sandbox="off"), URL)


@pytest.mark.usefixtures("without_bubblewrap")
@pytest.mark.parametrize("setting", [{"sandbox": "required"}, {"access": "on"}])
def test_no_warning_where_nothing_runs_without_one(setting: dict[str, Any]) -> None:
    assert who_may_run_code(Settings(**setting), URL) == ""


def test_no_warning_where_bubblewrap_works() -> None:
    assert who_may_run_code(Settings(), URL) == ""
