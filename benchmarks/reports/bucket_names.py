"""Collects losses by the length of their sequences, under a name that the compiled step formats."""

import torch
from torch import nn


class Step(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(32, 8)
        self.out = nn.Linear(8, 32)

    def forward(self, ids):
        logits = self.out(self.embed(ids))
        loss = nn.functional.cross_entropy(logits[:-1], ids[1:])
        return loss, f"len{ids.shape[0]:03d}"


torch.manual_seed(0)
net = Step()
model = torch.compile(net, dynamic=True)
optimizer = torch.optim.AdamW(net.parameters(), lr=0.01)
losses = {}
for length in (7, 12, 7, 9):
    loss, name = model(torch.randint(0, 32, (length,)))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    losses.setdefault(name, []).append(round(loss.item(), 4))
print(losses)
