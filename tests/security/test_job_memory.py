"""What all processes of a job take together is bounded, however they take it, by a control group or by a watch."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from minimizer.errors import MemoryExceeded, WorkerTrouble
from minimizer.sandbox import Bounds, Bubblewrap, Limits, Sandbox, bounded, cgroup, footprint

PYTHON = Path("/usr/bin/env")
MEBIBYTE = 1 << 20
BOUND = 192 * MEBIBYTE
LONG = 60
WAIT = "\nprint('took it', flush=True)\ninput()\n"
TAKE = {
    "processes": "import os, signal\nfor _ in range(4):\n    if os.fork() == 0:\n        block = bytearray(80 << 20)\n        signal.pause()",
    "memfd": "import os\nfile = os.memfd_create('x')\nfor _ in range(20):\n    os.write(file, bytes(16 << 20))",
    "mapping": "import mmap\nmemory = mmap.mmap(-1, 320 << 20)\nfor at in range(0, 320 << 20, 4096):\n    memory[at] = 1",
    "mapping, under a name that is no text": "import mmap\nopen('/proc/self/comm', 'wb').write(b'\\xff\\xfe')\nmemory = mmap.mmap(-1, 320 << 20)\nfor at in range(0, 320 << 20, 4096):\n    memory[at] = 1",
    "/dev/shm": "with open('/dev/shm/x', 'wb') as file:\n    for _ in range(20):\n        file.write(bytes(16 << 20))",
    "/tmp": "with open('/tmp/x', 'wb') as file:\n    for _ in range(20):\n        file.write(bytes(16 << 20))",
}
LET_GO = """
import ctypes, mmap
memory = mmap.mmap(-1, 320 << 20)
at = ctypes.addressof(ctypes.c_char.from_buffer(memory))
{}
for start in range(0, 320 << 20, 1 << 20):
    memory[start : start + (1 << 20)] = b"x" * (1 << 20)
    memory.madvise(mmap.MADV_DONTNEED)
"""
UNSEEN = {
    "a mapping whose pages are let go": LET_GO.format(""),
    "the same under a name": LET_GO.format(
        "ctypes.CDLL(None).prctl(0x53564D41, ctypes.c_ulong(0), ctypes.c_ulong(at), ctypes.c_ulong(320 << 20), b'mine')"
    ),
    "memfds, one page of each mapped": """
import ctypes, mmap, os
libc = ctypes.CDLL(None)
for _ in range(20):
    file = os.memfd_create("x")
    os.write(file, bytes(16 << 20))
    libc.mmap(None, ctypes.c_size_t(4096), mmap.PROT_READ, mmap.MAP_SHARED, file, ctypes.c_long(0))
    os.close(file)
""",
}
"""Content that no page table shows and no descriptor holds. PR_SET_VMA names a mapping."""
LITTLE = """
import mmap, os, signal
block = mmap.mmap(-1, 64 << 20)
block.write(bytes(64 << 20))
reader, writer = os.pipe()
for _ in range(5):
    if os.fork() == 0:
        sum(block[at] for at in range(0, 64 << 20, 4096))
        os.write(writer, b"x")
        signal.pause()
for _ in range(5):
    os.read(reader, 1)
file = os.memfd_create("x")
os.write(file, bytes(64 << 20))
held = mmap.mmap(file, 64 << 20)
sum(held[at] for at in range(0, 64 << 20, 4096))
MAP_NORESERVE = 0x4000
reserved = mmap.mmap(-1, 1 << 40, mmap.MAP_SHARED | mmap.MAP_ANONYMOUS | MAP_NORESERVE)
"""
"""Shared by six processes, open and mapped, and to be counted once; and address space, not to be counted."""


def sandbox(kind: type[Sandbox], counted: str, monkeypatch: pytest.MonkeyPatch) -> Sandbox:
    if counted == "watch":
        monkeypatch.setattr(cgroup, "_make", lambda bounds: {})
    bounds = Bounds(BOUND, processes=64)
    return Limits("this is a test", bounds=bounds) if kind is Limits else Bubblewrap(bounds=bounds)


def start(sandbox: Sandbox, script: str, folder: Path) -> subprocess.Popen[bytes]:
    return sandbox.start(
        [str(PYTHON), "python3", "-c", script + WAIT],
        cwd=folder,
        read=(),
        write=[folder],
        env={"PATH": os.defpath},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )


counting = pytest.mark.parametrize(
    "counted",
    [
        pytest.param("group", marks=pytest.mark.skipif("memory" not in bounded(), reason="no control group of memory")),
        "watch",
    ],
)


@counting
@pytest.mark.parametrize("how", TAKE)
def test_no_way_of_taking_memory_gets_a_job_past_its_bound(
    how: str, counted: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    chosen = sandbox(Bubblewrap, counted, monkeypatch)
    process = start(chosen, TAKE[how], tmp_path)
    with pytest.raises(MemoryExceeded, match="more memory than the 192 MiB"):
        chosen.finish(process, LONG, chosen.watch)
    assert process.poll() is not None
    with pytest.raises(MemoryExceeded):  # it stays the verdict
        chosen.watch()


@pytest.mark.parametrize("how", UNSEEN)
@pytest.mark.parametrize(
    "counted",
    [
        pytest.param("group", marks=pytest.mark.skipif("memory" not in bounded(), reason="no control group of memory")),
        pytest.param(
            "watch",
            marks=pytest.mark.skipif(
                footprint._nameless_device() is None, reason="takes root or CAP_CHECKPOINT_RESTORE"
            ),
        ),
    ],
)
def test_memory_that_no_page_table_shows_counts_too(
    how: str, counted: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    chosen = sandbox(Bubblewrap, counted, monkeypatch)
    with pytest.raises(MemoryExceeded):
        chosen.finish(start(chosen, UNSEEN[how], tmp_path), LONG, chosen.watch)


@counting
def test_processes_under_plain_limits_are_counted_too(
    counted: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    chosen = sandbox(Limits, counted, monkeypatch)
    with pytest.raises(MemoryExceeded):
        chosen.finish(start(chosen, TAKE["processes"], tmp_path), LONG, chosen.watch)


@counting
def test_what_processes_share_counts_once(counted: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    chosen = sandbox(Bubblewrap, counted, monkeypatch)
    process = start(chosen, LITTLE, tmp_path)
    assert process.stdout is not None
    assert process.stdout.readline() == b"took it\n"
    chosen.watch()
    assert process.poll() is None
    chosen.kill(process)


@counting
def test_commands_of_a_job_count_together(counted: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    chosen = sandbox(Bubblewrap, counted, monkeypatch)
    half = "block = bytearray(120 << 20)"
    first = start(chosen, half, tmp_path)
    assert first.stdout is not None
    assert first.stdout.readline() == b"took it\n"
    chosen.watch()
    second = start(chosen, half, tmp_path)
    with pytest.raises(MemoryExceeded):
        chosen.finish(second, LONG, chosen.watch)
    chosen.kill(first)
    assert first.returncode != 0


@pytest.mark.skipif("memory" not in bounded(), reason="no control group of memory")
def test_groups_go_with_the_last_command(tmp_path: Path) -> None:
    chosen = Bubblewrap(bounds=Bounds(BOUND, 64))
    processes = [start(chosen, "", tmp_path) for _ in range(2)]
    folders = {folder for _, folder in chosen._group._folders.values()}
    assert folders and all(folder.is_dir() for folder in folders)
    chosen.kill(processes[0])
    assert all(folder.is_dir() for folder in folders)
    chosen.kill(processes[1])
    assert not any(folder.exists() for folder in folders)


@pytest.fixture
def narrow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A group around those of jobs that has less memory than one of them may take."""
    version, _, own = next(found for found in cgroup._own_groups() if "memory" in found[1])
    outer = own / f"narrow-{os.getpid()}"
    outer.mkdir()
    line = f"{'4:memory' if version == 1 else '0:'}:/{outer.relative_to(cgroup._mount(version, 'memory'))}\n"
    (tmp_path / "own").write_text(line)
    for name, value in Bounds(BOUND // 2, 64).settings("memory", version):
        cgroup._write(outer / name, value)
    monkeypatch.setattr(cgroup, "OWN", tmp_path / "own")
    yield
    outer.rmdir()


@pytest.mark.skipif("memory" not in bounded(), reason="no control group of memory")
@pytest.mark.usefixtures("narrow")
def test_memory_that_the_machine_lacks_is_not_the_jobs_bound(tmp_path: Path) -> None:
    chosen = Bubblewrap(bounds=Bounds(BOUND, 64))
    process = start(chosen, "block = bytearray(120 << 20)", tmp_path)
    with pytest.raises(WorkerTrouble, match="the kernel ended a process of the job for want of memory"):
        chosen.finish(process, LONG, chosen.watch)
    with pytest.raises(WorkerTrouble):
        chosen.watch()


def test_a_process_that_was_ended_is_not_the_commands_own_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As where the kernel ends the compiler, and the script goes on and calls that a compile error."""
    chosen = sandbox(Bubblewrap, "watch", monkeypatch)
    process = chosen.start(["false"], cwd=tmp_path, read=(), write=[tmp_path], env={"PATH": os.defpath})
    chosen._group.ran_out = True
    with pytest.raises(MemoryExceeded):
        chosen.finish(process, LONG, lambda: None)


def test_all_of_this_would_be_had_without_a_bound(tmp_path: Path) -> None:
    chosen = Bubblewrap(bounds=Bounds(1 << 40, 64))
    for script in (TAKE | UNSEEN).values():
        process = start(chosen, script, tmp_path)
        assert process.stdout is not None
        assert process.stdout.readline() == b"took it\n"
        chosen.watch()
        chosen.kill(process)
