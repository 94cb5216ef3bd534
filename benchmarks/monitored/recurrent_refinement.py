"""Refines a hidden state in a loop of one compiled region that reads its input from a record; profiled, with a trace file."""

import tempfile
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import nn


@dataclass
class Context:
    hidden: torch.Tensor


torch.manual_seed(0)
cell, readout = nn.Linear(8, 8), nn.Linear(8, 1)
nn.init.orthogonal_(cell.weight, gain=1.2)
context = Context(torch.zeros(4, 8))


@torch.compiler.nested_compile_region
def refine():
    return torch.tanh(cell(context.hidden))


@torch.compile(fullgraph=True)
def run(hidden):
    global context
    for _ in range(3):
        context = Context(hidden)
        hidden = refine()
    return hidden


optimizer = torch.optim.SGD(readout.parameters(), lr=0.1)
folder = Path(tempfile.mkdtemp())
losses = []
with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], record_shapes=True) as profile:
    for step in range(3):
        x = torch.randn(4, 8)
        with torch.no_grad():
            hidden = run(x)
        loss = nn.functional.mse_loss(readout(hidden), x.sum(1, keepdim=True))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
        profile.step()
profile.export_chrome_trace(str(folder / "trace.json"))
print("trace", (folder / "trace.json").stat().st_size, "bytes")
print("losses", [round(value, 5) for value in losses], "norm", round(hidden.norm().item(), 5))
