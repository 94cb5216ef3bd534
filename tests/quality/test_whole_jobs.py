"""Whole jobs: one that is killed in the middle of its reduction, and one whose graph only PyTorch's own minifier has seen."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from minimizer.engine.pipeline import minimize
from minimizer.options import Options
from minimizer.settings import Settings
from minimizer.sink import FolderSink
from minimizer.vocabulary import Kind, Stage, Status

pytestmark = [pytest.mark.quality, pytest.mark.timeout(600)]
SECONDS = 200.0
"""Longer than the first step of a reduction takes, even on a busy machine."""
SCRIPT = """
import torch
import torch._inductor.config as config

config.cpp.inject_relu_bug_TESTING_ONLY = "accuracy"
torch.manual_seed(0)
torch.compile(lambda x: torch.relu(x.sin() + 1).cos())(torch.randn(4, 16))
"""
SPAWNS = """
import torch
import torch.multiprocessing


class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.down = torch.nn.Linear(8, 16), torch.nn.Linear(16, 8)

    def forward(self, x):
        return x + self.down(torch.relu(self.up(x))).tanh()


def train(rank):
    torch._inductor.config.cpp.inject_relu_bug_TESTING_ONLY = "accuracy"
    torch.manual_seed(rank)
    print(torch.compile(Block())(torch.randn(4, 8)).sum().item())


if __name__ == "__main__":
    torch.multiprocessing.spawn(train, nprocs=1)
"""


def test_a_killed_job_goes_on_from_its_last_accepted_step(tmp_path: Path) -> None:
    path, out = tmp_path / "script.py", tmp_path / "out"
    path.write_text(SCRIPT)
    command = [sys.executable, "-m", "minimizer", "run", str(path), "--no-witness", "--out", str(out)]
    checkpoint, repro = out / "checkpoint.json", out / "repro.py"

    first = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
    deadline = time.monotonic() + SECONDS
    while not (checkpoint.exists() and repro.exists()):
        assert first.poll() is None and time.monotonic() < deadline
        time.sleep(0.02)
    os.kill(first.pid, signal.SIGKILL)
    first.wait()

    assert json.loads((out / "report.json").read_text())["status"] == "running"
    compile(repro.read_text(), "repro.py", "exec")
    left = json.loads(checkpoint.read_text())
    assert left["history"]

    second = subprocess.run(command, capture_output=True, text=True, check=False)
    assert second.returncode == 0, second.stderr
    report = json.loads((out / "report.json").read_text())
    assert any("goes on from" in note for note in report["notes"])
    assert report["status"] == "minimized"
    assert report["reduction"]["nodes_after"] == 1
    assert report["reduction"]["history"][: len(left["history"])] == left["history"]
    assert not checkpoint.exists()
    assert "has not been verified" not in repro.read_text()


def test_a_graph_that_only_the_witness_has_found_is_taken_up(tmp_path: Path) -> None:
    """The script compiles in a process that it starts, where we do not look."""
    (tmp_path / "home").mkdir()
    path = tmp_path / "home" / "script.py"
    path.write_text(SPAWNS)
    report = minimize(
        path,
        options=Options(budget=400, diagnosis=False),
        settings=Settings(trial_jobs=2),
        sink=FolderSink(tmp_path / "out"),
    )
    assert report.status is Status.MINIMIZED, report.summary
    assert report.failure is not None and report.verification is not None
    assert (report.failure.kind, report.failure.stage) == (Kind.WRONG_OUTPUT, Stage.INDUCTOR)
    assert report.verification.holds
    assert [culprit.ops for culprit in report.culprits] == [["aten.relu"]]
    assert {one.after: one.agrees for one in report.witnesses}["aot"] is True
    assert "Linear" not in (tmp_path / "out" / "repro.py").read_text()
    assert "class Repro" in (tmp_path / "out" / "witness-aot.txt").read_text()
