"""The throw-away folder: a job cannot fill the disk with it, and it goes whatever a script has left there."""

from __future__ import annotations

import errno
import os
import shutil
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import pytest

from minimizer.engine.child.scratch_disk import Scratch, remove
from minimizer.errors import DiskExceeded, WorkerTrouble

NOBODY = 65534
NEST = """
import os
for _ in range(2000):
    os.mkdir("deeper")
    os.chdir("deeper")
"""


@pytest.fixture
def own_folder() -> Iterator[Path]:
    """A folder of an ordinary user's, whom the test then runs as: root would be let in everywhere."""
    folder = Path(tempfile.mkdtemp())
    if os.getuid() != 0:
        yield folder
        return
    os.chown(folder, NOBODY, NOBODY)
    os.seteuid(NOBODY)
    try:
        yield folder
    finally:
        os.seteuid(0)


MEBIBYTE = 1 << 20


def nothing() -> None:
    """Nobody writes here."""


class Usage(NamedTuple):
    """As `shutil.disk_usage` has it."""

    free: int


@dataclass
class Disk:
    """A disk with so many bytes free."""

    free: int

    def take(self, folder: Path, size: int) -> None:
        """Write a file of this size into a folder on it."""
        with (folder / f"much-{size}").open("wb") as file:
            os.posix_fallocate(file.fileno(), 0, size)
        self.free -= size


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Disk:
    """A disk with 1 GiB free."""
    disk = Disk(1024 * MEBIBYTE)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: Usage(disk.free))
    return disk


def test_a_job_ends_before_it_has_filled_the_disk(disk: Disk) -> None:
    with Scratch(least_free=64 * MEBIBYTE) as scratch:
        scratch.watch(nothing)
        disk.take(scratch.path, 512 * MEBIBYTE)
        disk.free = 40 * MEBIBYTE  # what others have written
        scratch._looked = 0.0
        with pytest.raises(DiskExceeded, match="40 MiB are free on the disk"):
            scratch.watch(nothing)
    assert not scratch.path.exists()


def test_a_disk_that_another_job_fills_and_gives_back_is_no_verdict_about_this_one(disk: Disk) -> None:
    """Both see that it is full, and whoever filled it may have been removed before the other one is looked at."""

    def give_back() -> None:
        disk.free = 900 * MEBIBYTE

    with Scratch(least_free=64 * MEBIBYTE) as scratch:
        disk.take(scratch.path, 300 * MEBIBYTE)
        disk.free = 40 * MEBIBYTE
        with pytest.raises(WorkerTrouble, match="40 MiB are free on the disk"):
            scratch.watch(give_back)


def test_a_job_that_began_on_a_disk_all_but_full_may_hold_what_any_job_does(disk: Disk) -> None:
    with Scratch(least_free=1000 * MEBIBYTE) as scratch:
        disk.take(scratch.path, 30 * MEBIBYTE)
        with pytest.raises(WorkerTrouble, match="994 MiB are free on the disk"):
            scratch.watch(nothing)


def test_a_disk_that_others_have_filled_is_no_verdict_about_the_job() -> None:
    with Scratch(least_free=1 << 60) as scratch, pytest.raises(WorkerTrouble, match="MiB are free on the disk"):
        scratch.watch(nothing)
    with Scratch(least_free=1, least_files=1 << 60) as scratch, pytest.raises(WorkerTrouble, match="files more"):
        scratch.watch(nothing)


def test_a_folder_that_cannot_be_made_is_no_verdict_about_the_job(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", "/nonexistent")
    with pytest.raises(WorkerTrouble, match="no folder can be made for a job"):
        Scratch()


def test_folders_nested_without_end_are_removed(tmp_path: Path) -> None:
    folder = tmp_path / "scratch"
    folder.mkdir()
    subprocess.run([sys.executable, "-c", NEST], cwd=folder, check=True)

    remove(folder)

    assert not folder.exists()


@pytest.mark.parametrize("mode", [0, 0o500])
def test_folders_that_were_closed_to_us_are_removed(own_folder: Path, mode: int) -> None:
    inner = own_folder / "closed" / "inner"
    inner.mkdir(parents=True)
    (inner / "file").write_text("left")
    inner.chmod(mode)
    inner.parent.chmod(mode)

    remove(own_folder)

    assert not own_folder.exists()


def test_a_link_out_of_the_folder_is_not_followed(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir(mode=0o500)
    folder = tmp_path / "scratch"
    folder.mkdir()
    (folder / "link").symlink_to(outside)

    remove(folder)

    assert outside.stat().st_mode & 0o777 == 0o500
    assert not folder.exists()


def test_what_a_killed_process_has_left_goes_with_the_next_job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    living = Scratch()
    make = "from minimizer.engine.child.scratch_disk import Scratch; import os, signal; Scratch(); os.kill(os.getpid(), signal.SIGKILL)"
    subprocess.run([sys.executable, "-c", make], env={**os.environ, "TMPDIR": str(tmp_path)}, check=False)
    precious = tmp_path / "precious"
    precious.mkdir()
    (precious / "lock").touch(mode=0o600)
    (precious / "closed").mkdir(mode=0)
    (tmp_path / "minimizer-scratch-planted").symlink_to(precious)
    (abandoned,) = set(tmp_path.glob("minimizer-*")) - {living.path, tmp_path / "minimizer-scratch-planted"}
    further = Scratch()
    assert not abandoned.exists()
    assert living.path.exists() and further.path.exists()
    assert stat.S_IMODE((precious / "closed").stat().st_mode) == 0
    living.remove()
    further.remove()
    assert list(tmp_path.glob("minimizer-*")) == [tmp_path / "minimizer-scratch-planted"]


def test_where_files_cannot_be_locked_a_job_runs_all_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_locks(file: object, operation: int) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    living = Scratch()
    monkeypatch.setattr("fcntl.flock", no_locks)
    scratch = Scratch()
    assert living.path.exists() and scratch.path.exists()
    scratch.remove()
    living.remove()
