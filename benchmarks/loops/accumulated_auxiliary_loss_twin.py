"""Gradients of micro-batches are accumulated; from the second step on an auxiliary loss is added to the loss: one backward."""

import torch
import torch.nn.functional as F
from torch import nn

MICRO_BATCHES, WARM_UP = 2, 1


class Tagger(nn.Module):
    def __init__(self, words, width, tags):
        super().__init__()
        self.embed = nn.Embedding(words, width)
        self.mix = nn.Sequential(nn.Linear(width, width), nn.SiLU(), nn.LayerNorm(width))
        self.tag = nn.Linear(width, tags)

    def forward(self, tokens):
        hidden = self.mix(self.embed(tokens))
        return self.tag(hidden), hidden


def batches(count):
    for _ in range(count):
        tokens = torch.randint(0, 50, (4, 12))
        yield tokens, tokens % 7


torch.manual_seed(0)
model = Tagger(50, 16, 7)
compiled = torch.compile(model)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
for step in range(4):
    total = 0.0
    for tokens, tags in batches(MICRO_BATCHES):
        logits, hidden = compiled(tokens)
        loss = F.cross_entropy(logits.flatten(0, 1), tags.flatten()) / MICRO_BATCHES
        if step >= WARM_UP:
            smooth = (hidden[:, 1:] - hidden[:, :-1]).square().mean() / MICRO_BATCHES
            loss = loss + smooth
        loss.backward()
        total += loss.item()
    optimizer.step()
    optimizer.zero_grad()
    print(step, round(total, 4))
