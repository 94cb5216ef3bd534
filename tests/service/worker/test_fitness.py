"""Whether a machine can do a job at all: what is looked at before one is claimed."""

from __future__ import annotations

import os
import sys
import tempfile
import threading
from pathlib import Path
from typing import Literal

import pytest

from minimizer import fitness as checks
from minimizer.fitness import why_unfit
from minimizer.settings import Settings
from worker import fitness
from worker.fitness import Fitness


def test_this_machine_is_fit() -> None:
    assert why_unfit([Path(sys.executable)], sandboxed=True) == ""
    assert Fitness.of(Settings()).trouble() == ""


def test_a_folder_for_a_job_is_made_for_real(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", "/nonexistent")
    assert "no folder can be made for a job" in why_unfit([], sandboxed=False)


def test_memory_that_is_short(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "meminfo"
    monkeypatch.setattr(checks, "MEMINFO", file)
    file.write_text("MemTotal:  8000000 kB\nMemAvailable:  102400 kB\n")
    assert "100 MiB of memory are available" in why_unfit([], sandboxed=False)
    file.write_text("MemTotal:  8000000 kB\n")
    assert why_unfit([], sandboxed=False) == "", "nothing is known"


def test_a_sandbox_that_stopped_working(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("minimizer.sandbox.bubblewrap.bwrap", lambda: str(tmp_path / "bwrap"))
    assert "bubblewrap does not start" in why_unfit([], sandboxed=True)
    assert why_unfit([], sandboxed=False) == ""


@pytest.mark.parametrize("sandbox", ["auto", "off"])
def test_a_sandbox_that_is_missing_where_people_sign_in(
    sandbox: Literal["auto", "off"], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every job would be refused, and a worker that ends all at once takes them from those that could do them."""
    for name in ("why_no_bubblewrap", "try_bubblewrap"):
        monkeypatch.setattr(checks, name, lambda: "bubblewrap is not installed")
    assert Fitness.of(Settings(sandbox=sandbox, access="on")).trouble() == "bubblewrap is not installed"
    assert Fitness.of(Settings(sandbox=sandbox)).trouble() == "", "a choice"


def test_a_machine_without_a_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing could be compiled, and every job would end as one that cannot run here."""
    monkeypatch.setenv("CXX", "no-such-g++")
    assert "no C++ compiler" in why_unfit([], sandboxed=False)


def test_an_interpreter_without_torch(tmp_path: Path) -> None:
    python = tmp_path / "python"
    python.write_text("#!/bin/sh\necho '{\"torch\": false}'\n")
    python.chmod(0o755)
    assert f"{python} has no torch" in why_unfit([python], sandboxed=False)
    python.write_text("#!/bin/sh\necho '{\"torch\": true}'\n")
    assert why_unfit([python], sandboxed=False) == "", "it was installed"


@pytest.mark.parametrize("body", ["exit 3", None])
def test_an_interpreter_that_does_not_run(tmp_path: Path, body: str | None) -> None:
    python = tmp_path / "python"
    if body is not None:
        python.write_text(f"#!/bin/sh\n{body}\n")
        python.chmod(0o755)
    assert f"{python} does not run" in why_unfit([python], sandboxed=False)


def test_the_machine_is_not_asked_for_every_job() -> None:
    asked: list[int] = []

    def look() -> str:
        asked.append(os.getpid())
        return "the disk is full"

    sick = Fitness(look)
    assert [sick.trouble() for _ in range(3)] == ["the disk is full"] * 3
    assert len(asked) == 1


def test_a_machine_that_hangs_is_named_and_looked_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Or its worker would only be silent, and what others have left behind would wait for its reaper."""
    monkeypatch.setattr(fitness, "ANSWER_SECONDS", 0.01)
    goes_on, looks = threading.Event(), []

    def look() -> str:
        looks.append(os.getpid())
        goes_on.wait()
        return ""

    sick = Fitness(look)
    assert ["does not answer" in sick.trouble() for _ in range(3)] == [True] * 3
    assert len(looks) == 1
    goes_on.set()
    while "does not answer" in sick.trouble():
        pass
    assert sick.trouble() == "", "it has come back"


def test_a_look_that_fails_is_trouble() -> None:
    def look() -> str:
        raise OSError("Input/output error")

    assert Fitness(look).trouble() == "this machine cannot be looked at: Input/output error"
