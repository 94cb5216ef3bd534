"""A job that takes too much of memory or disk is ended while it does, also where nobody waits for it."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from minimizer.engine.child.scratch_disk import LEAST_FREE, Scratch
from minimizer.engine.child.warden import Warden
from minimizer.errors import DiskExceeded, MemoryExceeded, WorkerTrouble
from minimizer.sandbox import Bounds, Bubblewrap

END_SECONDS = 120
ALLOCATE = """
import os, sys
for number in range(int(sys.argv[2])):
    with open(f"{sys.argv[1]}/{number}", "wb") as file:
        os.posix_fallocate(file.fileno(), 0, 512 << 20)
"""
FILES = 12


@pytest.fixture
def sandbox() -> Bubblewrap:
    return Bubblewrap(bounds=Bounds(256 << 20, 64))


def start(sandbox: Bubblewrap, folder: Path, script: str, *arguments: object) -> subprocess.Popen[bytes]:
    return sandbox.start(
        ["/usr/bin/env", "python3", "-c", script, *map(str, arguments)],
        cwd=folder,
        read=(),
        write=[folder],
        env={"PATH": os.defpath},
    )


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Scratch]:
    """A scratch folder whose job may write 512 MiB, as far as others leave the disk alone."""
    free = shutil.disk_usage(tmp_path).free
    if free < LEAST_FREE + FILES * (512 << 20):
        pytest.skip("the disk is too full for a job that tries to fill it")
    with Scratch(least_free=free - (512 << 20)) as scratch:
        yield scratch


def test_disk_that_is_allocated_at_once_cannot_be_taken_whole(sandbox: Bubblewrap, small: Scratch) -> None:
    folder = small.path / "shared"
    folder.mkdir()
    with Warden(sandbox, small) as warden:
        process = start(sandbox, folder, ALLOCATE, folder, FILES)
        process.wait(END_SECONDS)
        assert process.returncode == 128 + 9, "it was ended before it had them all"
        with pytest.raises(DiskExceeded, match="are free on the disk"):
            warden.watch()
    assert len(list(folder.iterdir())) < FILES
    sandbox.kill(process)


def test_memory_is_watched_while_nobody_waits(sandbox: Bubblewrap, tmp_path: Path) -> None:
    script = "import os\nfor _ in range(4):\n    if os.fork() == 0:\n        block = bytearray(120 << 20)\n        PAUSE\nPAUSE"
    with Scratch(least_free=0, least_files=0) as scratch, Warden(sandbox, scratch) as warden:
        process = start(sandbox, tmp_path, script.replace("PAUSE", "__import__('signal').pause()"))
        process.wait(END_SECONDS)
        for _ in range(2):
            with pytest.raises(MemoryExceeded, match="the 256 MiB that a job may take"):
                warden.watch()
        sandbox.kill(process)


def test_a_job_that_cannot_be_watched_is_ended(
    sandbox: Bubblewrap, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails() -> None:
        raise ValueError("what is that")

    with Scratch(least_free=0, least_files=0) as scratch, Warden(sandbox, scratch) as warden:
        process = start(sandbox, tmp_path, "__import__('signal').pause()")
        monkeypatch.setattr(sandbox, "watch", fails)
        process.wait(END_SECONDS)
        with pytest.raises(WorkerTrouble, match="what is that"):
            warden.watch()
        sandbox.kill(process)


def test_a_job_that_takes_little_goes_on(sandbox: Bubblewrap, tmp_path: Path) -> None:
    with Scratch(least_free=0, least_files=0) as scratch, Warden(sandbox, scratch) as warden:
        process = start(
            sandbox, tmp_path, "import os; os.posix_fallocate(os.open('file', os.O_CREAT | os.O_RDWR), 0, 8192)"
        )
        assert sandbox.finish(process, END_SECONDS, warden.watch) == 0
    assert (tmp_path / "file").stat().st_size == 8192
