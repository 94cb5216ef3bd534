"""What of our environment a script may see."""

from __future__ import annotations

import pytest

from minimizer.options import Options
from minimizer.settings import Settings
from minimizer.workplace import granted


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


def test_a_job_for_the_cpu_sees_no_cuda_device() -> None:
    assert granted(Options(device="cpu"), Settings(), print) == {"CUDA_VISIBLE_DEVICES": ""}
