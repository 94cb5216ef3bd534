"""A recurrent cell that keeps scratch space of the size of its state, made with the legacy constructor."""

import torch
from torch import nn


class Cell(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.inner = nn.Linear(width, width)
        self.outer = nn.Linear(width, width)

    def forward(self, x, state):
        hidden = torch.tanh(self.inner(x) + state)
        scratch = torch.Tensor(hidden.size()).fill_(0.5)
        return self.outer(hidden), scratch


torch.manual_seed(0)
cell = Cell(6).eval()
step = torch.compile(cell)
state, sizes = torch.zeros(1, 6), []
with torch.no_grad():
    for number in range(4):
        out, scratch = step(torch.randn(1, 6), state)
        state = out * scratch.sum() / 3
        sizes.append(tuple(scratch.shape))
        print("step", number, "scratch", sizes[-1], "norm", round(state.norm().item(), 5))
