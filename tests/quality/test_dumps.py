"""Graphs that PyTorch dumped, each written by torch itself, as the script of a whole job."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from minimizer.engine.pipeline import minimize
from minimizer.options import Options
from minimizer.report.model import Report
from minimizer.settings import Settings
from minimizer.sink import FolderSink
from minimizer.vocabulary import Kind, Stage, Status

pytestmark = [pytest.mark.quality("whole jobs"), pytest.mark.timeout(900)]
SCRIPT = """
import torch
import torch._inductor.config

torch._inductor.config.cpp.inject_relu_bug_TESTING_ONLY = {bug!r}
torch.manual_seed(0)
net = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.ReLU())
torch.compile(lambda x: net(x).sum(1))(torch.randn(4, 8))
"""


def dumped(folder: Path, name: str, bug: str | None, **variables: str) -> Path:
    """The file of this name that torch writes while it runs the script with these variables."""
    folder.mkdir()
    (folder / "train.py").write_text(SCRIPT.format(bug=bug))
    quiet = {key: value for key, value in os.environ.items() if not key.startswith("TORCH")}
    own = {"TORCH_COMPILE_DEBUG_DIR": str(folder), "TORCHINDUCTOR_CACHE_DIR": str(folder / "cache")}
    command = [sys.executable, "train.py"]
    done = subprocess.run(command, cwd=folder, env=quiet | own | variables, capture_output=True, text=True, check=False)
    found = list(folder.glob(f"torch_compile_debug/**/{name}"))
    assert len(found) == 1, done.stderr[-2000:]
    return found[0]


def answer(script: Path, out: Path) -> Report:
    return minimize(
        script,
        options=Options(budget=600, diagnosis=False, witness=False),
        settings=Settings(trial_jobs=2),
        sink=FolderSink(out),
        is_local=True,
    )


def is_wrong_relu(report: Report, kind: Kind) -> bool:
    assert report.failure is not None and report.verification is not None, report.summary
    assert report.verification.holds
    return (
        report.status is Status.MINIMIZED
        and (report.failure.kind, report.failure.stage) == (kind, Stage.INDUCTOR)
        and [culprit.ops for culprit in report.culprits] == [["aten.relu"]]
    )


def test_a_launcher_of_the_minifier_gives_the_answer_of_its_script(tmp_path: Path) -> None:
    level = {"TORCHDYNAMO_REPRO_AFTER": "aot", "TORCHDYNAMO_REPRO_LEVEL": "4"}
    launcher = dumped(tmp_path / "home", "minifier_launcher.py", "accuracy", **level)
    report = answer(launcher, tmp_path / "out")
    assert is_wrong_relu(report, Kind.WRONG_OUTPUT)
    assert "minifier_launcher.py is a graph that PyTorch dumped" in report.notes[0]
    assert "with the values that were saved with it" in report.notes[0]
    source = report.culprits[0].source
    assert source is not None and source.line is not None
    assert "aten.relu" in launcher.read_text().splitlines()[source.line - 1], "a line of the file that was given"


def test_a_launcher_after_dynamo_gives_the_answer_of_its_script(tmp_path: Path) -> None:
    level = {"TORCHDYNAMO_REPRO_AFTER": "dynamo", "TORCHDYNAMO_REPRO_LEVEL": "2"}
    launcher = dumped(tmp_path / "home", "minifier_launcher.py", "compile_error", **level)
    assert is_wrong_relu(answer(launcher, tmp_path / "out"), Kind.COMPILE_ERROR)


@pytest.mark.fault_behind("made_up_inputs")
def test_a_fault_shows_with_made_up_values(tmp_path: Path) -> None:
    dump = dumped(tmp_path / "home", "fx_graph_runnable.py", "accuracy", TORCH_COMPILE_DEBUG="1")
    report = answer(dump, tmp_path / "out")
    assert is_wrong_relu(report, Kind.WRONG_OUTPUT)
    assert "with made-up values for 3 of 3 inputs" in report.notes[0]


@pytest.mark.needs_excuse("made_up_inputs")
def test_a_graph_that_is_right_with_made_up_values_is_healthy_with_low_confidence(tmp_path: Path) -> None:
    dump = dumped(tmp_path / "home", "fx_graph_runnable.py", None, TORCH_COMPILE_DEBUG="1")
    report = answer(dump, tmp_path / "out")
    assert (report.status, report.confidence) == (Status.HEALTHY, "low"), report.summary
    assert "a graph that PyTorch dumped was called with made-up values" in report.summary.split(".")[0]
