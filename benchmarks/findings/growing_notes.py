"""A decoder that keeps the attention of each step in a list of its own: with every step the list is longer."""

import torch
from torch import nn


class Decoder(nn.Module):
    def __init__(self, width, memory):
        super().__init__()
        self.query = nn.Linear(width, width)
        self.cell = nn.GRUCell(2 * width, width)
        self.register_buffer("memory", memory)
        self.alignments = []

    def forward(self, token, state):
        scores = self.memory @ self.query(state)[:, :, None]
        weights = scores[..., 0].softmax(-1)
        self.alignments.append(weights)
        context = (weights[..., None] * self.memory).sum(1)
        return self.cell(torch.cat([token, context], -1), state)


def main():
    torch.manual_seed(0)
    memory = torch.randn(2, 9, 12)
    decoder = Decoder(12, memory).eval()
    step = torch.compile(decoder, backend="aot_eager")
    state = torch.zeros(2, 12)
    with torch.no_grad():
        for position in range(10):
            state = step(torch.randn(2, 12), state)
            print(f"step {position}: {state.norm().item():.4f}")
    print(f"sharpest {torch.stack(decoder.alignments).max().item():.4f}")


main()
