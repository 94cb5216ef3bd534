"""What a machine has, from a stand-in for torch and for nvidia-smi."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from gpuset.machine import Peaks, family, free_mib, parse_table, probe, smi_table, used_by_process

WITH_CARD = """
__version__ = "2.11.0+cu128"
class version: cuda, hip = "12.8", None
class cuda:
    is_available = staticmethod(lambda: True)
    get_device_name = staticmethod(lambda: "NVIDIA H100")
    get_device_capability = staticmethod(lambda: (9, 0))
"""
NO_CARD = WITH_CARD.replace("lambda: True", "lambda: False")
CPU_BUILD = NO_CARD.replace('"12.8"', "None")


@pytest.fixture
def python(tmp_path: Path) -> Path:
    """An interpreter whose torch the test writes, into the folder ``modules`` beside it."""
    (tmp_path / "modules").mkdir()
    file = tmp_path / "python"
    file.write_text(f'#!/bin/sh\nPYTHONPATH={tmp_path / "modules"} exec {sys.executable} -S "$@"\n')
    file.chmod(0o755)
    return file


@pytest.fixture
def smi(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A stand-in for nvidia-smi: it answers each query with what the file of that name in ``answers`` holds."""
    (tmp_path / "answers").mkdir()
    program = tmp_path / "nvidia-smi"
    program.write_text(f'#!/bin/sh\ncat "{tmp_path}/answers/${{1#--query-}}" 2>/dev/null\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    return tmp_path / "answers"


def test_a_card_is_named_with_its_driver(python: Path, smi: Path) -> None:
    (python.parent / "modules" / "torch.py").write_text(WITH_CARD)
    (python.parent / "modules" / "triton.py").write_text('__version__ = "3.6.0"')
    (smi / "gpu=driver_version").write_text("570.86.15\n")
    machine = probe(python, "cuda")
    assert machine.trouble == ""
    assert (machine.card, machine.driver, machine.torch, machine.triton, machine.cuda) == (
        "NVIDIA H100", "570.86.15", "2.11.0+cu128", "3.6.0", "12.8",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("torch", "said"),
    [(None, "has no torch"), (CPU_BUILD, "is built for the CPU only"), (NO_CARD, "sees no CUDA device")],
    ids=["no torch", "CPU build", "no card"],
)
def test_why_there_is_no_device(python: Path, torch: str | None, said: str) -> None:
    if torch is not None:
        (python.parent / "modules" / "torch.py").write_text(torch)
    trouble = probe(python, "cuda").trouble
    assert said in trouble
    assert str(python) in trouble


def test_the_cpu_needs_a_torch_and_no_card(python: Path) -> None:
    assert "has no torch" in probe(python, "cpu").trouble
    (python.parent / "modules" / "torch.py").write_text(CPU_BUILD)
    assert probe(python, "cpu").trouble == ""


def test_an_interpreter_that_says_nothing(tmp_path: Path) -> None:
    assert "could not say" in probe(tmp_path / "none", "cuda").trouble
    silent = tmp_path / "silent"
    silent.write_text("#!/bin/sh\n")
    silent.chmod(0o755)
    assert "could not say" in probe(silent, "cuda").trouble


def test_what_nvidia_smi_says(smi: Path) -> None:
    (smi / "gpu=memory.free").write_text("78321\n")
    (smi / "compute-apps=pid,used_memory").write_text("4711, 512\n4712, [N/A]\n")
    assert free_mib() == 78321
    assert used_by_process() == {4711: 512}
    assert smi_table("--query-gpu=none") == []
    assert parse_table("NVIDIA H100, 570\n\n") == [["NVIDIA H100", "570"]]


def test_without_nvidia_smi_nothing_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    assert free_mib() is None
    assert used_by_process() == {}


def test_the_peak_is_that_of_the_scripts_own_processes() -> None:
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    try:
        assert {os.getpid(), child.pid} <= family(os.getpid())
        used = {child.pid: 700}
        peaks = Peaks(of_processes=lambda: used, of_card=lambda: 9000)
        peaks.sample({"mine": child.pid, "other": 1 << 23})
        used = {child.pid: 500}
        peaks.sample({"mine": child.pid})
        assert peaks.of("mine") == (700, False)
        assert peaks.of("other") == (9000, True), "of the whole card: a bound"
        assert peaks.of("never seen") == (None, True)
    finally:
        child.communicate(b"\n")
