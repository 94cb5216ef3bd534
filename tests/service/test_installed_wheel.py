"""The doors that others use, from an installed wheel: what stands in other people's files keeps its name."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import pytest
from checkout import ROOT

PAGES = {page.name for page in (ROOT / "docs").iterdir()}


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", folder],
        cwd=ROOT, check=True, capture_output=True,
    )  # fmt: skip
    [wheel] = folder.glob("*.whl")
    return wheel


@pytest.fixture(scope="module")
def bin(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Programs of an environment with the wheel in it, and all that it needs, but without this checkout."""
    folder = tmp_path_factory.mktemp("environment")
    venv.create(folder, symlinks=True)
    python = folder / "bin" / "python"
    site = _said(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))").strip()
    ours = _said(sys.executable, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))").strip()
    _said(sys.executable, "-m", "pip", "--python", python, "install", "--no-deps", "--no-index", wheel)
    # What lies in a folder that a .pth file names is importable; .pth files in there, such as the checkout's, are not read.
    (Path(site) / "needs.pth").write_text(ours)
    return python.parent


def _said(*command: str | Path, cwd: Path | None = None) -> str:
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("PYTHON", "VIRTUAL_ENV"))}
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=cwd, env=environment)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_wheel_has_the_packages_with_their_data_and_nothing_else(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()

    assert {name.split("/")[0] for name in names if ".dist-info/" not in name} == {
        "minimizer", "worker", "web", "migrations",
    }  # fmt: skip
    tracked = subprocess.run(
        ["git", "ls-files", "minimizer", "worker", "web", "migrations"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    assert set(tracked.stdout.split()) <= set(names)
    assert {name.removeprefix("web/docs/") for name in names if name.startswith("web/docs/")} == PAGES


def test_the_command_line_starts_by_its_name_and_as_a_module(bin: Path, tmp_path: Path) -> None:
    version = _said(bin / "minimizer", "--version", cwd=tmp_path)

    assert version == _said(bin / "python", "-m", "minimizer", "--version", cwd=tmp_path)
    assert "run" in _said(bin / "minimizer", "--help", cwd=tmp_path)
    for command in ("run", "serve", "submit", "doctor"):
        assert "Usage: minimizer" in _said(bin / "minimizer", command, "--help", cwd=tmp_path)


def test_the_public_interface_is_the_installed_one_and_loads_no_torch(bin: Path, tmp_path: Path) -> None:
    look = """
import json, sys
import minimizer, minimizer.api
names = [name for name in minimizer.__all__ if getattr(minimizer, name) is None]
print(json.dumps([minimizer.__file__, minimizer.minimize is minimizer.api.minimize, names, "torch" in sys.modules]))
"""
    where, same, missing, torch = json.loads(_said(bin / "python", "-c", look, cwd=tmp_path))

    assert Path(where).is_relative_to(bin.parent) and same and not missing and not torch


def test_torch_finds_the_backend_by_its_entry_point(bin: Path, tmp_path: Path) -> None:
    look = """
import torch
from importlib.metadata import entry_points
[entry] = entry_points(group="torch_dynamo_backends", name="minimizer")
assert entry.value == "minimizer.inside.backend:minimizer", entry.value
assert torch._dynamo.lookup_backend("minimizer") is entry.load()
assert "minimizer" in torch._dynamo.list_backends(exclude_tags=())
"""
    _said(bin / "python", "-W", "ignore", "-c", look, cwd=tmp_path)


def test_the_process_that_makes_a_script_of_a_saved_graph_starts_by_its_name(bin: Path, tmp_path: Path) -> None:
    done = subprocess.run(
        [bin / "python", "-m", "minimizer.captured", tmp_path],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 1
    assert done.stderr == "Name a folder that the minimizer backend has written: it holds capture.json.\n"


def test_pytest_loads_the_plugin_by_its_entry_point(bin: Path, tmp_path: Path) -> None:
    assert "--minimize" in _said(bin / "python", "-m", "pytest", "--help", cwd=tmp_path)
