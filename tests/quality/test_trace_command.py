"""``minimizer trace`` from its command line: the flat program of a training loop, and where compiled code parts from eager."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.quality("whole jobs"), pytest.mark.timeout(600)]
WEIGHT_OF_A_LOSS = """
import torch
import torch.nn.functional as F


class Head(torch.nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = torch.nn.LayerNorm(width)
        self.up, self.last = torch.nn.Linear(width, 2 * width), torch.nn.Linear(2 * width, 1)

    def forward(self, x):
        return self.last(F.silu(self.up(self.norm(x)))).squeeze(-1)


def weight_of(loss, layer):
    (slope,) = torch.autograd.grad(loss, layer.weight, retain_graph=True)
    return 1 / (slope.norm().detach() + 1e-4)


torch.manual_seed(2)
model = Head(8)
compiled = torch.compile(model, backend="aot_eager")
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
for step in range(4):
    x = torch.randn(16, 8)
    output = compiled(x)
    loss = F.mse_loss(output, x.sum(dim=1))
    if step >= 2:
        loss = loss + weight_of(loss, model.last) * output.square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


def run(*command: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, *map(str, command)], capture_output=True, text=True, check=False)


def test_a_training_loop_is_traced_to_where_its_sides_part(tmp_path: Path) -> None:
    script, flat = tmp_path / "train.py", tmp_path / "out" / "flat.py"
    script.write_text(WEIGHT_OF_A_LOSS)

    traced = run("-m", "minimizer", "trace", script, "--out", flat)

    assert traced.returncode == 0, traced.stderr
    assert "on eager's own inputs: slope, = torch.autograd.grad(" in traced.stdout
    assert "train.py:17" in traced.stdout
    assert "donated buffers" in traced.stdout
    assert "not noted" not in traced.stdout
    assert "def graph_0(" in flat.read_text()
    compiled, eager = run(flat), run(flat, "eager")
    assert (compiled.returncode, eager.returncode) == (1, 0), eager.stderr
    assert "donated buffers" in compiled.stderr
