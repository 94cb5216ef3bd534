"""Whole jobs in which a finding is the failure: it is reduced, its repro asserts it, and a twin without it is healthy."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from children import script
from test_corpus import minimize

pytestmark = [pytest.mark.quality("findings"), pytest.mark.timeout(900)]
LOGGED = """
    import torch

    class Head(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = torch.nn.Linear(8, 8)
            self.seen = []

        def forward(self, x):
            y = torch.relu(self.linear(x))
            {step}
            return y * 2

    torch.manual_seed(0)
    head = torch.compile(torch.nn.Sequential(torch.nn.Linear(8, 8), Head()), backend="aot_eager")
    for step in range(3):
        loss = head(torch.randn(3, 8)).sum()
        loss.backward()
        print(step, loss.item())
"""
STEPS = """
    import torch

    class Norm(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.updates = {first}

        def forward(self, x):
            self.updates = self.updates + 1
            return torch.tanh(x) / self.updates

    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Linear(4, 4), Norm())
    step = torch.compile(net, backend="aot_eager")
    for _ in range(6):
        print(step(torch.randn(2, 4)).sum().item())
"""


def ends(repro: Path, **environment: str) -> int:
    """The exit status of a repro in a process of its own."""
    return subprocess.run(
        [sys.executable, repro.name], cwd=repro.parent, env={**os.environ, **environment}, check=False
    ).returncode


def check(report: dict[str, object], out: Path, kind: str, most_lines: int) -> None:
    verification, failure, reduction = report["verification"], report["failure"], report["reduction"]
    assert isinstance(verification, dict) and isinstance(failure, dict) and isinstance(reduction, dict)
    assert report["status"] == "minimized" and (failure["kind"], failure["stage"]) == (kind, "dynamo")
    assert verification["failed_same"] == verification["runs"] and verification["passes_with_compiler_off"]
    assert reduction["lines_after"] <= most_lines
    assert (ends(out / "repro.py"), ends(out / "repro.py", TORCHDYNAMO_DISABLE="1")) == (1, 0)
    assert not (out / "issue.md").exists()  # nothing is wrong with the compiler
    text = (out / "repro.py").read_text()
    assert "Head" not in text and "tanh" not in text and "backward" not in text


def test_a_graph_break_is_reduced(tmp_path: Path) -> None:
    path = script(tmp_path, LOGGED.format(step="print('mean', y.mean().item())"), "logged.py")

    status, report = minimize(path, tmp_path / "out", "--expect", "graph-break", "--no-diagnosis")

    assert status == 0
    check(report, tmp_path / "out", "graph_break", 17)
    (culprit,) = report["culprits"]
    assert culprit["source"]["line"] == 12


def test_recompiles_are_reduced(tmp_path: Path) -> None:
    path = script(tmp_path, STEPS.format(first=1), "steps.py")

    status, report = minimize(path, tmp_path / "out", "--expect", "recompiles", "--no-diagnosis")

    assert status == 0
    check(report, tmp_path / "out", "recompiles", 22)
    assert "the size" not in report["failure"]["message"]


SCORES = """
    import sys
    import time
    import torch

    @torch.library.custom_op("scores::ranks", mutates_args=())
    def ranks(x: torch.Tensor) -> torch.Tensor:
        frame = sys._getframe()
        while frame is not None and frame.f_code.co_name != "call":  # Inductor's code stands in functions of this name
            frame = frame.f_back
        if frame is not None:
            time.sleep(0.05)
        return x.argsort().argsort().float()

    @ranks.register_fake
    def _(x):
        return torch.empty_like(x)

    class NormalScores(torch.nn.Module):
        def forward(self, x):
            return 1.4142 * ranks(2 * torch.sigmoid(x)).clamp(-4, 4)

    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Linear(4, 8), NormalScores(), torch.nn.LayerNorm(8), torch.nn.Linear(8, 4))
    score = torch.compile(net.eval())
    with torch.no_grad():
        for _ in range(3):
            print(score(torch.randn(16, 4)).sum().item())
"""


def test_an_operator_that_is_slower_than_eager_is_found(tmp_path: Path) -> None:
    """An operator sleeps where Inductor's code calls it: whatever else the machine does takes less."""
    path = script(tmp_path, SCORES, "scores.py")

    status, report = minimize(path, tmp_path / "out", "--expect", "slow", "--no-diagnosis")

    assert (status, report["status"], report["failure"]["kind"]) == (0, "minimized", "slow")
    assert report["verification"]["failed_same"] == report["verification"]["runs"]
    assert report["verification"]["passes_with_compiler_off"]
    (culprit,) = report["culprits"]
    assert (culprit["ops"], culprit["module"], report["reduction"]["nodes_after"]) == (["scores.ranks"], "1", 1)
    assert "Linear" not in (tmp_path / "out" / "repro.py").read_text()


@pytest.mark.parametrize(
    ("text", "expect", "none"),
    [
        (LOGGED.format(step="self.seen.append(1)"), "graph-break", "There is no graph break"),
        (STEPS.format(first="torch.tensor(1)"), "recompiles", "No function is compiled again"),
        (STEPS.format(first=1), "memory", "No compiled graph keeps so much more"),
        (STEPS.format(first=1), "compile-time", "No graph takes so long to compile"),
    ],
)
def test_a_twin_without_the_finding_is_healthy(text: str, expect: str, none: str, tmp_path: Path) -> None:
    path = script(tmp_path, text, "twin.py")

    status, report = minimize(path, tmp_path / "out", "--expect", expect, "--no-diagnosis")

    assert (status, report["status"], report["failure"]) == (3, "healthy", None)
    assert none in report["summary"]
    assert not (tmp_path / "out" / "repro.py").exists()
