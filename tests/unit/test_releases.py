"""Environments with other releases of torch: made by a real pip, from an index of our own in which torch is one small file."""

from __future__ import annotations

import subprocess
import sys
import time
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from minimizer import releases
from minimizer.errors import Cancelled, InvalidOption, MissingTool
from minimizer.releases import READY, Releases, releases_of

RELEASES = ("2.4.1", "2.11.0", "2.12.0", "2.12.1", "2.13.0+cpu", "2.14.0", "2.15.0rc1")
NEEDS_MORE = "2.14.0"
"""The release that cannot be installed: what it requires is not in the index."""


@pytest.fixture(scope="module")
def own_pip(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The pip that the first job of a machine sets up, for all tests."""
    place = tmp_path_factory.mktemp("pip")
    releases.pip_of(place, Path(sys.executable), time.monotonic() + 120, lambda: None)
    (found,) = place.glob("pip-*/")
    return found


@pytest.fixture(autouse=True)
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, own_pip: Path) -> Path:
    folder = tmp_path / "index"
    folder.mkdir()
    for version in RELEASES:
        info = f"torch-{version}.dist-info"
        more = "Requires-Dist: not-there\n" if version == NEEDS_MORE else ""
        with zipfile.ZipFile(folder / f"torch-{version}-py3-none-any.whl", "w") as wheel:
            wheel.writestr("torch/__init__.py", f"__version__ = {version!r}\n")
            wheel.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: torch\nVersion: {version}\n{more}")
            wheel.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
            wheel.writestr(f"{info}/RECORD", "")
    for name, value in {"NO_INDEX": "1", "FIND_LINKS": str(folder), "CONFIG_FILE": "/dev/null"}.items():
        monkeypatch.setenv(f"PIP_{name}", value)
    monkeypatch.delenv("PIP_CONSTRAINT", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    root = tmp_path / "cache" / "minimizer" / "torch"
    root.mkdir(parents=True)
    (root / own_pip.name).symlink_to(own_pip)
    monkeypatch.setattr(releases, "FREE_BYTES", 0)
    return folder


def asked(*versions: str, is_searched: bool = False) -> Releases:
    return releases_of(versions, Path(sys.executable), is_searched=is_searched, watch=lambda: None)


def made(found: Releases, release: str, watch: Callable[[], None] = lambda: None) -> Path:
    return found.interpreter(release, left=lambda: 120.0, watch=watch)


def torch_of(python: Path) -> str:
    said = subprocess.run(
        [python, "-I", "-c", "import torch; print(torch.__version__)"], capture_output=True, check=True
    )
    return said.stdout.decode().strip()


def test_a_release_is_found_by_its_beginning_and_all_are_searched_from_the_oldest_that_works() -> None:
    found = asked("2.12", "2.4", "2.12.0", is_searched=True)
    assert found.named == ["2.12.1", "2.4.1", "2.12.0"]
    assert found.searched == ["2.11.0", "2.12.0", "2.12.1", "2.13.0", "2.14.0"]


def test_what_is_no_release_is_told_with_those_that_there_are() -> None:
    with pytest.raises(InvalidOption, match=r"no such release for .*; it has 2\.4\.1, 2\.11\.0"):
        asked("2.10")
    with pytest.raises(InvalidOption, match="not a version"):
        asked("newest")


def test_an_environment_is_made_once_and_kept(index: Path) -> None:
    python = made(asked("2.13"), "2.13.0")
    assert torch_of(python) == "2.13.0+cpu"
    for wheel in index.glob("torch-2.13*"):
        wheel.unlink()
    assert made(asked("2.12"), "2.13.0") == python


def test_one_that_cannot_be_made_says_what_pip_says_and_is_tried_again(index: Path) -> None:
    found = asked("2.14")
    with pytest.raises(MissingTool, match="not-there"):
        made(found, "2.14.0")
    with zipfile.ZipFile(index / "not_there-1-py3-none-any.whl", "w") as wheel:
        wheel.writestr("not_there-1.dist-info/METADATA", "Metadata-Version: 2.1\nName: not-there\nVersion: 1\n")
        wheel.writestr("not_there-1.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr("not_there-1.dist-info/RECORD", "")
    assert torch_of(made(asked("2.14"), "2.14.0")) == "2.14.0"


def test_who_cancels_ends_pip_and_the_next_job_begins_anew() -> None:
    found = asked("2.11")

    def cancel() -> None:
        raise Cancelled("the job was cancelled")

    with pytest.raises(Cancelled):
        made(found, "2.11.0", cancel)
    assert torch_of(made(asked("2.11"), "2.11.0")) == "2.11.0"


def test_the_one_that_was_not_used_for_longest_gives_way_unless_it_is_in_use(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(releases, "MOST_KEPT", 2)
    first = asked("2.11", "2.12.0", "2.12.1", "2.13")
    unused = made(first, "2.11.0")
    in_use = made(second := asked("2.12.0"), "2.12.0")
    first.close()
    newest = made(asked("2.13"), "2.13.0")
    assert [path.parent.parent.joinpath(READY).exists() for path in (unused, in_use, newest)] == [False, True, True]
    second.close()


def test_a_full_disk_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(releases, "FREE_BYTES", 1 << 60)
    with pytest.raises(MissingTool, match="are free"):
        made(asked("2.11"), "2.11.0")


def test_no_module_of_the_working_directory_is_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is that of a project whose code the sandbox is to contain."""
    project = tmp_path / "project"
    project.mkdir()
    for name in ("pip", "venv", "logging"):
        (project / f"{name}.py").write_text("raise SystemExit('not in the sandbox')\n")
    monkeypatch.chdir(project)
    assert torch_of(made(asked("2.12"), "2.12.1")) == "2.12.1"


def test_what_a_machine_that_went_down_has_left_is_removed(tmp_path: Path) -> None:
    whole = made(asked("2.11"), "2.11.0")
    left = whole.parent.parent.with_name("2.12.0-cp311")
    left.mkdir()
    (left / "half a wheel").touch()
    made(asked("2.13"), "2.13.0")
    assert whole.exists() and not left.exists()
