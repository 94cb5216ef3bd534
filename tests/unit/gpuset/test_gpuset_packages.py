"""The engine's packages for an interpreter that has none, from a folder of wheels and without a network."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from gpuset import packages
from gpuset.packages import ROOT, Unusable, download_command, lacking, search_path, tag_for, tag_of, unpacked

SEEN = """
import sys
sys.path.insert(0, sys.argv[1])
import minimizer.cli.run, minimizer.cli.progress, minimizer.engine.pipeline
import rich.console, rich.live, rich.spinner
import importlib.metadata as metadata
owners = metadata.packages_distributions()
print(*sorted({o for name in {m.partition(".")[0] for m in sys.modules} for o in owners.get(name, ())}))
"""


def test_all_that_a_run_imports_is_fetched() -> None:
    """`requirements.txt` names what is imported; pip adds what those need."""
    done = subprocess.run([sys.executable, "-c", SEEN, ROOT], capture_output=True, text=True, check=True)
    named = {line for line in packages.REQUIREMENTS.read_text().splitlines() if line and not line.startswith("#")}
    needed = set()
    ahead = list(named)
    while ahead:
        name = ahead.pop().lower().replace("_", "-")
        if name not in needed:
            needed.add(name)
            ahead += requirements(name)
    seen = {name.lower().replace("_", "-") for name in done.stdout.split()}
    assert {"click", "pydantic", "ruff", "rich"} <= seen, "the probe saw nothing"
    assert seen - needed <= {"minimizer", "setuptools"}


def requirements(name: str) -> list[str]:
    import importlib.metadata as metadata

    from packaging.requirements import Requirement

    found = [Requirement(text) for text in metadata.requires(name) or ()]
    return [each.name for each in found if each.marker is None or each.marker.evaluate({"extra": ""})]


def test_an_interpreter_has_a_tag() -> None:
    major, minor = sys.version_info[:2]
    assert tag_of(Path(sys.executable)).startswith(f"cp{major}{minor}-")
    assert tag_for("3.12", "aarch64") == "cp312-aarch64"
    with pytest.raises(Unusable, match="no interpreter"):
        tag_of(Path("/nowhere/python"))
    for version in ("3.10", "3", "2.7", "4.1"):
        with pytest.raises(Unusable, match="no version"):
            tag_for(version, "x86_64")


def test_wheels_are_fetched_for_another_python() -> None:
    command = download_command(Path("python3"), "cp312-x86_64", Path("wheels"))
    assert "--python-version=3.12" in command
    assert "--abi=cp312" in command
    assert "--platform=manylinux_2_28_x86_64" in command
    assert "--only-binary=:all:" in command


def test_an_interpreter_that_has_all_needs_no_wheels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packages, "WHEELS", tmp_path)
    python = Path(sys.executable)
    assert lacking(python) == ""
    assert unpacked(python, tag_of(python)) is None


@pytest.fixture
def bare(tmp_path: Path) -> Path:
    """An interpreter without any package."""
    file = tmp_path / "bare-python"
    file.write_text(f'#!/bin/sh\nexec {sys.executable} -S -I "$@"\n')
    file.chmod(0o755)
    return file


def test_one_without_packages_and_wheels_is_told_what_to_do(
    tmp_path: Path, bare: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(packages, "WHEELS", tmp_path)
    with pytest.raises(Unusable, match=r"make gpu-wheels WHEELS_FOR=3\.12"):
        unpacked(bare, "cp312-x86_64")


def wheel(folder: Path, name: str, files: dict[str, str]) -> None:
    info = f"{name}-1.0.dist-info"
    metadata = {f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n",
                f"{info}/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n", f"{info}/RECORD": ""}  # fmt: skip
    with zipfile.ZipFile(folder / f"{name}-1.0-py3-none-any.whl", "w") as archive:
        for path, text in {**files, **metadata}.items():
            archive.writestr(path, text)


FAKE_PIP = """
import sys, zipfile
arguments = sys.argv[1:]
assert arguments[0] == "install" and {"--no-index", "--no-deps", "--isolated"} <= set(arguments), arguments
target = arguments[arguments.index("--target") + 1]
for file in arguments:
    if file.endswith(".whl"):
        zipfile.ZipFile(file).extractall(target)
"""


def test_wheels_are_unpacked_beside_the_interpreter_once(
    tmp_path: Path, bare: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the pip that is among them; wheels that were replaced are unpacked anew."""
    monkeypatch.setattr(packages, "WHEELS", tmp_path / "wheels")
    monkeypatch.setattr(packages, "UNPACKED", tmp_path / "unpacked")
    folder = tmp_path / "wheels" / "cp312-x86_64"
    folder.mkdir(parents=True)
    wheel(folder, "pip", {"pip/__main__.py": FAKE_PIP})
    wheel(folder, "thing", {"thing.py": "VALUE = 1\n"})

    first = unpacked(bare, "cp312-x86_64")
    assert first is not None
    assert (first / "thing.py").read_text() == "VALUE = 1\n"
    assert unpacked(bare, "cp312-x86_64") == first

    wheel(folder, "thing", {"thing.py": "VALUE = 'another'\n"})
    second = unpacked(bare, "cp312-x86_64")
    assert second is not None
    assert second != first
    assert (second / "thing.py").read_text() == "VALUE = 'another'\n"

    with pytest.raises(Unusable, match="the engine does not start"):
        search_path(bare, "cp312-x86_64")


def test_the_engine_starts_with_what_is_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packages, "WHEELS", tmp_path)
    python = Path(sys.executable)
    assert search_path(python, tag_of(python)) == [ROOT]
