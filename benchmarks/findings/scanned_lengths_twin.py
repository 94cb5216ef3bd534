"""A recurrence whose step is compiled, and whose loop over the length of the input is not."""

import torch
from torch import nn


class Smoother(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.gate = nn.Linear(2 * width, width)
        self.head = nn.Linear(width, 1)

    def forward(self, state, x):
        mix = self.gate(torch.cat([state, x], -1)).sigmoid()
        return mix * state + (1 - mix) * x


def main():
    torch.manual_seed(0)
    smoother = Smoother(8).eval()
    step = torch.compile(smoother, backend="aot_eager")
    with torch.no_grad():
        for length in (5, 8, 6, 9, 7, 10):
            first, *rest = torch.randn(3, length, 8).unbind(1)
            state = first.clone()
            for x in rest:
                state = step(state, x)
            print(f"{length}: {smoother.head(state).sum().item():.4f}")


main()
