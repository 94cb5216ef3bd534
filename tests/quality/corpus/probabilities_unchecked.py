"""Logits are passed where probabilities are meant: eager refuses them, compiled trains on."""

import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(6, 12), nn.GELU(), nn.Linear(12, 3))
optimizer = torch.optim.SGD(model.parameters(), 0.1)


@torch.compile
def objective(x, labels):
    return F.binary_cross_entropy(model(x), labels)


for _ in range(2):
    optimizer.zero_grad()
    try:
        loss = objective(torch.randn(8, 6), torch.ones(8, 3))
    except RuntimeError as error:
        print("refused:", error)
        break
    loss.backward()
    optimizer.step()
else:
    raise AssertionError("probabilities outside of 0 and 1 must be refused")
