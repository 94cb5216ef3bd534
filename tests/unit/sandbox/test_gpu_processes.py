"""What a job left on a GPU is ended; what is somebody else's is left, and named."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from fake_smi import Card, FakeSmi

from minimizer.sandbox import Bubblewrap, Devices, Gpu, NoGpus, free_gpus, own_gpus
from minimizer.sandbox.gpu_processes import OWNER, mark, processes_on

GPU = Card("GPU-a")


@pytest.fixture
def gpus(smi: FakeSmi) -> tuple[Gpu, ...]:
    smi.has(GPU, Card("GPU-b"))
    return own_gpus({"CUDA_VISIBLE_DEVICES": "0"}).gpus


@pytest.fixture
def started() -> Iterator[list[subprocess.Popen[bytes]]]:
    processes: list[subprocess.Popen[bytes]] = []
    yield processes
    for process in processes:
        process.kill()
        process.wait()


def waits(started: list[subprocess.Popen[bytes]], owner: str | None) -> subprocess.Popen[bytes]:
    """A process that does nothing for as long as it is let, with or without the mark of an owner."""
    env = {**os.environ, **({OWNER: owner} if owner else {})}
    process = subprocess.Popen(["sleep", "3600"], env=env)
    started.append(process)
    return process


def dead_owner() -> str:
    """The mark of a process that has ended."""
    code = "from minimizer.sandbox.gpu_processes import mark; print(mark())"
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip()


def test_what_a_job_left_is_ended_and_awaited(
    smi: FakeSmi, gpus: tuple[Gpu, ...], started: list[subprocess.Popen[bytes]]
) -> None:
    process = waits(started, mark())
    smi.lists_while_alive(process.pid, "GPU-a")
    assert [found.pid for found in processes_on(gpus)] == [process.pid]

    assert free_gpus(gpus) == []

    assert process.wait() == -signal.SIGKILL


def test_a_process_in_a_sandbox_is_known_by_its_mark(smi: FakeSmi, gpus: tuple[Gpu, ...], tmp_path: Path) -> None:
    """It has namespaces of its own, and nvidia-smi lists it by the id that it has outside of them."""
    sandbox = Bubblewrap(devices=Devices(gpus))
    process = sandbox.start(
        ["sh", "-c", "echo ready; exec sleep 3600"],
        cwd=tmp_path, read=(), write=[tmp_path], env={"PATH": os.defpath}, stdout=subprocess.PIPE,
    )  # fmt: skip
    assert process.stdout is not None and process.stdout.readline() == b"ready\n"
    inside = descendants(process.pid)[-1]  # behind bubblewrap's own
    smi.lists_while_alive(inside, "GPU-a")
    assert free_gpus(gpus) == []
    assert process.wait(60) == 128 + signal.SIGKILL
    sandbox.kill(process)
    process.stdout.close()


def descendants(pid: int) -> list[int]:
    """The processes that a process has started, and those that they have, as we see them."""
    children = [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    return [*children, *(below for child in children for below in descendants(child))]


def test_what_a_killed_worker_left_is_ended(
    smi: FakeSmi, gpus: tuple[Gpu, ...], started: list[subprocess.Popen[bytes]]
) -> None:
    process = waits(started, dead_owner())
    smi.lists_while_alive(process.pid, "GPU-a")
    assert free_gpus(gpus) == []
    assert process.wait() == -signal.SIGKILL


@pytest.mark.parametrize("owner", [None, "another worker", "4711-1-pid:[1]", "nonsense"])
def test_what_is_not_ours_is_left_and_named(
    smi: FakeSmi, gpus: tuple[Gpu, ...], started: list[subprocess.Popen[bytes]], owner: str | None
) -> None:
    """Not marked, marked by a worker that is alive, by one of another container, or by nobody who can be asked after."""
    if owner == "another worker":
        worker = waits(started, None)
        since = Path(f"/proc/{worker.pid}/stat").read_text().rpartition(")")[2].split()[19]
        owner = f"{worker.pid}-{since}-{Path('/proc/self/ns/pid').readlink()}"
    process = waits(started, owner)
    smi.holds((process.pid, "GPU-a"))

    (left,) = free_gpus(gpus)

    assert left.text == f"process {process.pid} (python3, 500 MiB)"
    assert process.poll() is None


def test_a_process_on_another_card_is_not_looked_at(
    smi: FakeSmi, gpus: tuple[Gpu, ...], started: list[subprocess.Popen[bytes]]
) -> None:
    process = waits(started, mark())
    smi.holds((process.pid, "GPU-b"))
    assert free_gpus(gpus) == []
    assert process.poll() is None


def test_memory_that_is_not_given_back_is_not_waited_for_without_end(
    smi: FakeSmi, gpus: tuple[Gpu, ...], started: list[subprocess.Popen[bytes]]
) -> None:
    process = waits(started, mark())
    smi.holds((process.pid, "GPU-a"))
    assert [left.pid for left in free_gpus(gpus, seconds=0)] == [process.pid]


def test_lines_that_are_none_are_passed_over(smi: FakeSmi, gpus: tuple[Gpu, ...]) -> None:
    smi.does(
        "echo; echo '[Insufficient Permissions], GPU-a, 5, x'; echo '12, GPU-a, [N/A], /x/<a, b>'; echo '13, GPU-a, 614, [No data]'"
    )
    found = processes_on(gpus)
    assert [(each.pid, each.memory, each.name) for each in found] == [(12, "", "?a??b?"), (13, "614", "")]
    assert [each.text for each in found] == ["process 12 (?a??b?)", "process 13 (614 MiB)"]


def test_a_driver_that_does_not_answer(smi: FakeSmi, gpus: tuple[Gpu, ...]) -> None:
    smi.does("exit 9")
    with pytest.raises(NoGpus, match="exit status 9"):
        free_gpus(gpus)
