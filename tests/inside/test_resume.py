"""A real job, killed in the middle of its reduction: it goes on from there, and ends as it would have."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from children import SECONDS, script

SCRIPT = """
    import torch
    import torch._inductor.config as config

    config.cpp.inject_relu_bug_TESTING_ONLY = "accuracy"
    torch.manual_seed(0)
    torch.compile(lambda x: torch.relu(x.sin() + 1).cos())(torch.randn(4, 16))
"""


@pytest.mark.timeout(600)
def test_a_killed_job_goes_on_from_its_last_accepted_step(tmp_path: Path) -> None:
    path, out = script(tmp_path, SCRIPT), tmp_path / "out"
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
