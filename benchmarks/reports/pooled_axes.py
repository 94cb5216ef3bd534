"""Pools clips over time where they have that axis; single frames have none, and are taken as they are."""

import torch
from torch import nn


class Encoder(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.project = nn.Linear(width, 4)

    def pool(self, clip):
        try:
            return clip.mean(dim=2)
        except IndexError:
            return clip

    def forward(self, clip):
        return torch.tanh(self.project(self.pool(clip)))


torch.manual_seed(0)
encoder = Encoder(6)
model = torch.compile(encoder)
head = nn.Linear(4, 1)
optimizer = torch.optim.SGD([*encoder.parameters(), *head.parameters()], lr=0.1)
batches = [torch.randn(5, 6, 3), torch.randn(5, 6, 7), torch.randn(5, 6)]
for epoch in range(3):
    total = 0.0
    for clips in batches:
        loss = nn.functional.mse_loss(head(model(clips)), clips.flatten(1).sum(1, keepdim=True))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total += loss.item()
    print("epoch", epoch, "loss", round(total, 4))
