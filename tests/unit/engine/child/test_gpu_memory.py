"""The GPUs of a job: what is said where there is none, and what is left of other jobs."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

import pytest
from fake_smi import Card, FakeSmi

from minimizer.engine.child.gpu_memory import devices_of, freed
from minimizer.engine.pipeline import minimize
from minimizer.errors import MissingTool
from minimizer.options import Options
from minimizer.sandbox.gpu_processes import OWNER, mark
from minimizer.settings import Settings
from minimizer.sink import FolderSink
from minimizer.vocabulary import Reason, Status


def test_a_gpu_that_should_be_there_and_is_not(smi: FakeSmi, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "4")
    notes: list[str] = []
    assert devices_of(Options(), notes.append).gpus == ()
    assert notes == ["The script sees no GPU: CUDA_VISIBLE_DEVICES names 4, which is no GPU here; there are: none."]
    with pytest.raises(MissingTool, match="--device cuda: CUDA_VISIBLE_DEVICES names 4"):
        devices_of(Options(device="cuda"), notes.append)


def test_a_gpu_that_is_hidden_is_none(smi: FakeSmi, monkeypatch: pytest.MonkeyPatch) -> None:
    smi.has(Card("GPU-a"))
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    notes: list[str] = []
    assert devices_of(Options(), notes.append).gpus == ()
    assert notes == []
    with pytest.raises(MissingTool, match="no NVIDIA GPU is visible here, or CUDA_VISIBLE_DEVICES hides all"):
        devices_of(Options(device="cuda"), notes.append)


def test_a_cpu_job_asks_nothing(smi: FakeSmi) -> None:
    smi.does("exit 1")
    notes: list[str] = []
    with freed(devices_of(Options(device="cpu"), notes.append), notes.append):
        pass
    assert notes == []


def test_others_on_the_gpu_are_named_and_what_the_job_left_is_ended(smi: FakeSmi) -> None:
    smi.has(Card("GPU-a"))
    smi.holds((1, "GPU-a"))
    notes: list[str] = []
    with freed(devices_of(Options(), notes.append), notes.append):
        left = subprocess.Popen(["sleep", "3600"], env={**os.environ, OWNER: mark()})
        smi.lists_while_alive(left.pid, "GPU-a")
    assert left.wait() == -signal.SIGKILL
    assert notes == ["The GPU is shared: process 1 (python3, 500 MiB) on it is not ours."]


def test_who_comes_during_a_job_and_stays_is_named(smi: FakeSmi) -> None:
    smi.has(Card("GPU-a"))
    notes: list[str] = []
    with freed(devices_of(Options(), notes.append), notes.append):
        smi.holds(*((pid, "GPU-a") for pid in range(1, 8)))
    (note,) = notes
    assert note.startswith("After the job process 1 (python3, 500 MiB), ") and "process 5" in note
    assert "process 6" not in note and " and 2 more still held GPU memory" in note


def test_a_driver_that_fails_during_a_job_is_no_end_of_it(smi: FakeSmi) -> None:
    smi.has(Card("GPU-a"))
    notes: list[str] = []
    with freed(devices_of(Options(), notes.append), notes.append):
        smi.does("echo gone; exit 15")
    assert notes == ["Whether GPU memory is free could not be seen: The driver does not answer; nvidia-smi says: gone"]


def test_a_job_that_asks_for_a_gpu_ends_with_the_reason(
    smi: FakeSmi, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0")
    script = tmp_path / "a.py"
    script.write_text("import torch\n")
    report = minimize(script, options=Options(device="cuda"), settings=Settings(), sink=FolderSink(tmp_path / "out"))
    assert (report.status, report.reason) == (Status.FAILED, Reason.NOT_RUNNABLE)
    assert "names 0, which is no GPU here" in report.summary
