"""The GPUs of a worker: what it finds, and one job at a time on each, whichever process runs it."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from fake_smi import Card, FakeSmi

from minimizer.errors import InvalidOption
from minimizer.options import Options
from minimizer.report.model import Report
from minimizer.sandbox import Gpu, own_gpus
from minimizer.settings import Settings
from minimizer.sink import Sink
from minimizer.store import Store
from minimizer.vocabulary import Reason, Status
from worker.fitness import Fitness
from worker.gpu import Turns, look
from worker.tasks import take_jobs

FAKE_TORCH = """
import types
__version__ = {version!r}
version = types.SimpleNamespace(cuda={cuda!r})
def zeros(size, device):
    import os
    assert os.environ["CUDA_VISIBLE_DEVICES"] == "GPU-a", os.environ["CUDA_VISIBLE_DEVICES"]
    {computes}
    return types.SimpleNamespace(item=lambda: 0.0)
"""
HOLDS = """
import sys, threading
from pathlib import Path
from fake_smi import Card
from minimizer.sandbox import Gpu
from worker.gpu import Turns
gpu = Gpu("GPU-a", "H100", 0, 0, 81559, "580", "GPU-a")
with Turns(Path(sys.argv[1]), [gpu]).taken(threading.Event()):
    print("held", flush=True)
    sys.stdin.read()
"""


def python(
    folder: Path,
    *,
    version: str = "2.13.0+cu130",
    cuda: str | None = "13.0",
    triton: bool = True,
    computes: str = "pass",
) -> Path:
    """An interpreter whose torch and Triton are stand-ins."""
    (folder / "torch").mkdir(parents=True)
    (folder / "torch" / "__init__.py").write_text(FAKE_TORCH.format(version=version, cuda=cuda, computes=computes))
    if triton:
        (folder / "triton.py").write_text("__version__ = '3.7.1'\n")
    launcher = folder / "python"
    launcher.write_text(f'#!/bin/sh\nPYTHONPATH={folder} exec {sys.executable} -S "$@"\n')
    launcher.chmod(0o755)
    return launcher


@pytest.fixture
def gpu(smi: FakeSmi) -> Gpu:
    smi.has(Card("GPU-a"), Card("GPU-b"))
    return own_gpus({"CUDA_VISIBLE_DEVICES": "0"}).gpus[0]


# what it finds ----------------------------------------------------------------------------------------------------------


def test_a_gpu_that_torch_can_use(gpu: Gpu, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0")
    found = look(python(tmp_path / "good"))
    assert (found.trouble, found.devices) == ("", ["cuda"])
    assert found.torch.text == "torch 2.13.0+cu130, CUDA 13.0, Triton 3.7.1"
    hardware = found.hardware
    assert [(each.uuid, each.memory_mib) for each in hardware.gpus] == [("GPU-a", 81559)]
    assert (hardware.driver, hardware.cuda, hardware.triton) == ("580.82.07", "13.0", "3.7.1")


def test_a_gpu_that_is_full_at_the_moment_is_one_all_the_same(
    gpu: Gpu, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0")
    assert look(python(tmp_path / "full", computes="raise RuntimeError('CUDA out of memory.')")).devices == ["cuda"]


@pytest.mark.parametrize(
    ("torch", "why"),
    [
        ({"version": "2.13.0+cpu", "cuda": None}, "torch 2.13.0+cpu is not built for CUDA"),
        ({"computes": "raise RuntimeError('CUDA driver version is insufficient')"}, "driver version is insufficient"),
        ({"triton": False}, "Triton is not installed"),
        ({"computes": "os.abort()"}, "torch cannot be asked: exit status -6"),
    ],
)
def test_a_gpu_that_torch_cannot_use(
    gpu: Gpu, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, torch: dict[str, str], why: str
) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0")
    found = look(python(tmp_path / "bad", **torch))  # type: ignore[arg-type]
    assert why in found.trouble
    assert found.devices == []
    assert found.hardware.trouble == found.trouble and found.hardware.gpus


def test_a_gpu_that_is_not_there(gpu: Gpu, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "7")
    found = look()
    assert "names 7, which is no GPU here" in found.trouble
    assert found.devices == []


def test_a_worker_that_is_to_have_none(gpu: Gpu, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    assert (look().trouble, look().devices) == ("", [])


# whose turn it is -------------------------------------------------------------------------------------------------------


def gpus(*names: str) -> list[Gpu]:
    return [Gpu(name, "H100", 0, 0, 81559, "580", name) for name in names]


def is_free(folder: Path, *names: str, at_once: int = 1) -> bool:
    """Whether a turn can be had without a wait: one that cannot stops at the first look."""
    stopping = StopsAtOnce()
    with Turns(folder, gpus(*names), at_once).taken(stopping) as is_ours:
        return is_ours


class StopsAtOnce(threading.Event):
    """A worker that is told to stop as soon as it has to wait."""

    def wait(self, timeout: float | None = None) -> bool:
        self.set()
        return True


@pytest.fixture
def holder(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """Another process that has its turn on GPU-a."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDS, str(tmp_path / "locks")],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env={"PYTHONPATH": ":".join(sys.path)},
    )  # fmt: skip
    assert process.stdout is not None and process.stdout.readline() == "held\n"
    yield process
    process.kill()
    process.communicate()


def test_a_gpu_bears_one_job_at_a_time_in_all_processes(tmp_path: Path, holder: subprocess.Popen[str]) -> None:
    assert not is_free(tmp_path / "locks", "GPU-a")
    assert is_free(tmp_path / "locks", "GPU-b")
    assert is_free(tmp_path / "locks")


def test_a_turn_ends_with_its_process(tmp_path: Path, holder: subprocess.Popen[str]) -> None:
    holder.kill()
    holder.wait()
    assert is_free(tmp_path / "locks", "GPU-a")


def test_who_waits_goes_on_when_the_gpu_is_free(
    tmp_path: Path, holder: subprocess.Popen[str], caplog: pytest.LogCaptureFixture
) -> None:
    class LetsGo(threading.Event):
        def wait(self, timeout: float | None = None) -> bool:
            holder.kill()
            holder.wait()
            return False

    with caplog.at_level("INFO", "worker.gpu"), Turns(tmp_path / "locks", gpus("GPU-a")).taken(LetsGo()) as is_ours:
        said = [record.getMessage() for record in caplog.records]
        assert is_ours
        assert not is_free(tmp_path / "locks", "GPU-a")
    assert said == ["waiting for GPU GPU-a: another worker of this machine has a job on it"]


def test_as_many_jobs_as_are_allowed(tmp_path: Path) -> None:
    folder = tmp_path / "locks"
    with Turns(folder, gpus("GPU-a"), 2).taken(threading.Event()) as first:
        assert first and is_free(folder, "GPU-a", at_once=2)
        with Turns(folder, gpus("GPU-a"), 2).taken(threading.Event()) as second:
            assert second and not is_free(folder, "GPU-a", at_once=2)


def test_of_several_gpus_all_are_had_or_none(tmp_path: Path, holder: subprocess.Popen[str]) -> None:
    """Else two workers would wait for each other, each with what the other one wants."""
    assert not is_free(tmp_path / "locks", "GPU-a", "GPU-0", "GPU-z")
    assert is_free(tmp_path / "locks", "GPU-0", "GPU-z")


def test_a_folder_that_cannot_hold_locks(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(InvalidOption, match="MINIMIZER_GPU_LOCKS"):
        Turns(tmp_path / "file" / "locks", gpus("GPU-a"))
    Turns(tmp_path / "file" / "locks", [])


def test_a_link_in_place_of_a_lock_is_not_followed(tmp_path: Path) -> None:
    folder = tmp_path / "locks"
    folder.mkdir()
    (folder / "GPU-a.0").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(OSError, match="GPU-a"):
        is_free(folder, "GPU-a")
    assert not (tmp_path / "elsewhere").exists()


# jobs -------------------------------------------------------------------------------------------------------------------


def test_a_job_is_claimed_only_when_the_gpu_is_ours_and_keeps_it_to_its_end(
    store: Store, tmp_path: Path, smi: FakeSmi
) -> None:
    """A worker that had claimed it before would keep it from one whose GPU is free."""
    smi.has(Card("GPU-a"))
    job, _ = store.submissions.submit(b"print(1)\n", "a.py", Options(device="cuda"))
    folder, seen = tmp_path / "locks", list[bool]()

    def engine(
        script: Path, *, options: Options, settings: Settings, sink: Sink, python: Path | None, binds: Sequence[Path]
    ) -> Report:
        seen.append(is_free(folder, "GPU-a"))
        return Report(status=Status.MINIMIZED, summary="Done.")

    def take(stopping: threading.Event) -> None:
        turns = Turns(folder, gpus("GPU-a"))
        take_jobs(store, Settings(), worker="w", devices=["cuda"], stopping=stopping, engine=engine, turns=turns)

    with Turns(folder, gpus("GPU-a")).taken(threading.Event()):
        take(StopsAtOnce())
        assert store.jobs.get(job.id).status is Status.QUEUED

    take(threading.Event())
    assert store.jobs.get(job.id).status is Status.MINIMIZED
    assert seen == [False]
    assert is_free(folder, "GPU-a")


@pytest.mark.parametrize(
    ("body", "why"),
    [("echo 'No devices were found' >&2; exit 6", "No devices were found"), (None, "it is not listed")],
)
def test_a_worker_that_has_lost_a_gpu_takes_no_job(
    store: Store, gpu: Gpu, smi: FakeSmi, body: str | None, why: str
) -> None:
    """Or each of its claims would burn an attempt of a job that others could do."""
    job, _ = store.submissions.submit(b"print(1)\n", "a.py", Options(device="cuda"))
    assert Fitness.of(Settings(), [gpu]).trouble() == ""
    if body is None:
        smi.has(Card("GPU-b"))
    else:
        smi.does(body)
    sick = Fitness.of(Settings(), [gpu])
    take_jobs(store, Settings(), worker="w", devices=["cuda"], stopping=threading.Event(), fitness=sick)
    assert (store.jobs.get(job.id).status, store.jobs.get(job.id).attempt) == (Status.QUEUED, 0)
    assert sick.trouble().startswith("GPU GPU-a was there when the worker started") and why in sick.trouble()


def test_a_gpu_that_is_gone_is_no_verdict_about_a_script(store: Store, smi: FakeSmi) -> None:
    """Or the worker that lost its own would end all that wait for one, beside others that could do them."""
    job, _ = store.submissions.submit(b"print(1)\n", "a.py", Options(device="cuda"))

    def engine(
        script: Path, *, options: Options, settings: Settings, sink: Sink, python: Path | None, binds: Sequence[Path]
    ) -> Report:
        return Report(status=Status.FAILED, reason=Reason.NOT_RUNNABLE, summary="--device cuda: no GPU.")

    smi.does("echo 'No devices were found' >&2; exit 6")
    take_jobs(store, Settings(), worker="w", devices=["cuda"], stopping=threading.Event(), engine=engine)
    back = store.jobs.get(job.id)
    assert (back.status, back.attempt) == (Status.QUEUED, 1)
