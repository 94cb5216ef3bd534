"""Whole jobs: one that is killed in the middle of its reduction, one whose reduction has no end, one whose graph only PyTorch's own
minifier has seen, and two that lead that minifier astray (traps 12 and 13)."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
import time
import zipfile
from pathlib import Path
from typing import Any

import pytest
from children import script

from minimizer.engine.pipeline import minimize
from minimizer.engine.program.model import Program
from minimizer.engine.reduce.graph import Check, Reduced
from minimizer.engine.reduce.problem import Problem
from minimizer.options import Options
from minimizer.settings import Settings
from minimizer.sink import FolderSink
from minimizer.vocabulary import Kind, Stage, Status

pytestmark = [pytest.mark.quality("whole jobs"), pytest.mark.timeout(600)]
SECONDS = 200.0
"""Longer than the first step of a reduction takes, even on a busy machine."""
SCRIPT = """
import torch
import torch._inductor.config as config

config.cpp.inject_relu_bug_TESTING_ONLY = "accuracy"
torch.manual_seed(0)
torch.compile(lambda x: torch.relu(x.sin() + 1).cos())(torch.randn(4, 16))
"""
ENDLESS_BUDGET = 240
"""Seconds for a job whose reduction has no end: survey and clean runs take a third of it on a machine that is not idle."""
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


def test_a_job_whose_reduction_has_no_end_ends_in_time_with_a_verified_repro(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever eats the time, what is needed to write and verify the best so far is held back, and nothing outlasts the budget."""

    def endless(program: Program, *, check: Check, **_: Any) -> Reduced[Program]:
        problem = Problem(program, check=check, key=lambda one: (one.size,), on_step=lambda step, best: None, jobs=1)

        def run() -> None:
            while True:
                check([program])

        return Reduced.by(run, problem)

    monkeypatch.setattr("minimizer.engine.levels.graph.reduce", endless)
    (tmp_path / "home").mkdir()
    path, out = tmp_path / "home" / "script.py", tmp_path / "out"
    path.write_text(SCRIPT)
    report = minimize(
        path, options=Options(budget=ENDLESS_BUDGET), settings=Settings(trial_jobs=2), sink=FolderSink(out)
    )
    assert report.status is Status.MINIMIZED and report.reason is None, report.summary
    assert report.verification is not None and report.verification.holds
    assert report.reduction is not None and not report.reduction.one_minimal
    assert "a larger --budget may shrink it" in report.summary
    assert report.timings["total"] <= ENDLESS_BUDGET + 10


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


def test_trap_12_no_variable_reaches_an_artifact(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """PyTorch's tool writes every variable with TORCH in its name into the repro, where a backslash breaks the file."""
    secrets = {"MY_TORCH_SECRET": "swordfish\\", "MY_OTHER_TORCH_SECRET": "marlin"}
    for name, value in secrets.items():
        monkeypatch.setenv(name, value)
    (tmp_path / "home").mkdir()
    text = """
        import os
        import torch

        def f(x):
            return torch.relu(x)

        assert os.environ["MY_TORCH_SECRET"].endswith("\\\\")
        print(os.environ["MY_TORCH_SECRET"], repr(os.environ["MY_TORCH_SECRET"]))
        assert "MY_OTHER_TORCH_SECRET" not in os.environ
        torch._inductor.config.cpp.inject_relu_bug_TESTING_ONLY = "accuracy"
        x = torch.tensor([-1.0, 2.0])
        torch.testing.assert_close(torch.compile(f)(x), f(x))
    """
    out = tmp_path / "out"
    report = minimize(
        script(tmp_path / "home", text),
        options=Options(env=["MY_TORCH_SECRET"], budget=280),
        settings=Settings(trial_jobs=2, script_env="*"),
        sink=FolderSink(out),
    )
    assert report.status is Status.MINIMIZED, report.summary
    assert [heard.after for heard in report.witnesses] == ["dynamo", "aot"]
    assert report.witnesses[1].agrees is True
    written = {file.name: file.read_bytes() for file in out.iterdir()}
    assert {"repro.py", "report.json", "report.md", "run.log", "witness-aot.txt"} <= written.keys()
    for name, content in list(written.items()):
        if name.endswith(".zip"):
            pages = zipfile.ZipFile(io.BytesIO(content))
            written |= {f"{name}/{page}": pages.read(page) for page in pages.namelist()}
    for value in (b"swordfish", b"marlin"):
        assert not [name for name, content in written.items() if value in content]
    compile(written["repro.py"], "repro.py", "exec")
    json.loads(written["report.json"])


def test_trap_13_a_failure_inside_dynamo_has_a_repro_though_it_has_no_graph(tmp_path: Path) -> None:
    """PyTorch's minifier dumps nothing at any level: there is no graph to dump."""
    text = """
        import torch

        class Gate(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.linear = torch.nn.Linear(4, 4)

            def forward(self, x):
                x = self.linear(x).relu()
                return x if x.sum() > 0 else -x

        torch.manual_seed(0)
        model = torch.compile(Gate(), fullgraph=True)
        print(model(torch.randn(2, 4)))
    """
    out = tmp_path / "out"
    (tmp_path / "home").mkdir()
    report = minimize(
        script(tmp_path / "home", text),
        options=Options(budget=280, diagnosis=False, witness=False),
        settings=Settings(trial_jobs=2),
        sink=FolderSink(out),
    )
    assert report.status is Status.MINIMIZED, report.summary
    assert report.failure is not None
    assert (report.failure.kind, report.failure.stage) == (Kind.COMPILE_ERROR, Stage.DYNAMO)
    repro = (out / "repro.py").read_text()
    assert "fullgraph=True" in repro
    assert "Linear" not in repro
