"""A recurrence over a stretch of a sequence: its ends are numbers of a range, and each pair is another program."""

import torch
from torch import nn


class Tracker(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.cell = nn.GRUCell(width, width)
        self.head = nn.Linear(width, 1)

    def forward(self, x, start, end):
        state = torch.zeros_like(x[:, 0])
        for place in range(start, end):
            state = self.cell(x[:, place], state)
        return self.head(state)[:, 0]


def main():
    torch.manual_seed(0)
    track = torch.compile(Tracker(6).eval(), backend="aot_eager")
    signal = torch.randn(3, 20, 6)
    with torch.no_grad():
        for start in range(2, 8):
            print(f"from {start}: {track(signal, start, start + 4).sum().item():.4f}")


main()
