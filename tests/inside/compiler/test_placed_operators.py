"""Where the operators of a script are called: in which line of it, and in which module."""

from __future__ import annotations

from pathlib import Path

import pytest
from children import script

from minimizer.engine.child.executor import Executor
from minimizer.engine.reduce.python.rerun import Rerun

MODEL = """\
import torch
from torch import nn

class Gate(nn.Module):
    def forward(self, x):
        try:
            x.sin().missing
        except AttributeError:
            return x.clamp(max=1)

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.gates = nn.Sequential(Gate(), Gate())

    def forward(self, x):
        return self.gates(x).exp()

model = Model()
"""


@pytest.mark.parametrize("entry", ["torch.compile(model)(torch.ones(2))", "model.compile()\nmodel(torch.ones(2))"])
def test_an_operator_has_a_line_and_a_module(entry: str, child: Executor, home: Path) -> None:
    seen = Rerun(child, script(home, "")).observed(MODEL + entry + "\n")
    assert [(call.op, call.line, call.module) for call in seen.placed] == [
        ("aten.sin", 7, "gates.0"),
        ("aten.clamp", 9, "gates.0"),
        ("aten.sin", 7, "gates.1"),
        ("aten.clamp", 9, "gates.1"),
        ("aten.exp", 17, ""),
    ]


def test_a_function_has_lines_alone(child: Executor, home: Path) -> None:
    text = "import torch\ndef f(x):\n    return x.relu()\ntorch.compile(f)(torch.ones(2))\n"
    (call,) = Rerun(child, script(home, "")).observed(text).placed
    assert (call.op, call.line, call.module) == ("aten.relu", 3, "")
