"""A decoder that hands the attention of each step to its caller, which keeps the list."""

import torch
from torch import nn


class Decoder(nn.Module):
    def __init__(self, width, memory):
        super().__init__()
        self.query = nn.Linear(width, width)
        self.cell = nn.GRUCell(2 * width, width)
        self.register_buffer("memory", memory)

    def forward(self, token, state):
        scores = self.memory @ self.query(state)[:, :, None]
        weights = scores[..., 0].softmax(-1)
        context = (weights[..., None] * self.memory).sum(1)
        return self.cell(torch.cat([token, context], -1), state), weights


def main():
    torch.manual_seed(0)
    memory = torch.randn(2, 9, 12)
    decoder = Decoder(12, memory).eval()
    step = torch.compile(decoder, backend="aot_eager")
    state, alignments = torch.zeros(2, 12), []
    with torch.no_grad():
        for position in range(10):
            state, weights = step(torch.randn(2, 12), state)
            alignments.append(weights)
            print(f"step {position}: {state.norm().item():.4f}")
    print(f"sharpest {torch.stack(alignments).max().item():.4f}")


main()
