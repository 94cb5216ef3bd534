"""The same with the states in one tensor, whose length becomes dynamic."""

import torch
from torch import nn


class Reader(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.query, self.cell = nn.Linear(width, width), nn.GRUCell(width, width)

    def forward(self, token, memory):
        weights = torch.softmax((memory * self.query(token)[:, None]).sum(-1), dim=-1)
        context = (weights[..., None] * memory).sum(1)
        return self.cell(token, context)


def main():
    torch.manual_seed(0)
    reader = torch.compile(Reader(8).eval(), backend="aot_eager")
    memory = torch.zeros(2, 1, 8)
    with torch.no_grad():
        for step in range(7):
            state = reader(torch.randn(2, 8), memory)
            memory = torch.cat([memory, state[:, None]], dim=1)
            print(f"step {step}: {state.norm().item():.4f}")


main()
