"""Healthy: a tagger in bfloat16 with its weights, trained on rare tags that weigh more; losses are summed in the dtype that they come in."""

import torch
from torch import nn
from torch.nn import functional as F

TAGS = 6


class Tagger(nn.Module):
    """Probabilities of tags (n, 6) from features (n, 12), and their loss, weighed by tag."""

    def __init__(self, weight):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(12, 24), nn.Tanh(), nn.Linear(24, TAGS))
        self.register_buffer("weight", weight)

    def forward(self, features, tags):
        found = torch.sigmoid(self.layers(features))
        return F.binary_cross_entropy(found, tags, weight=self.weight)


torch.manual_seed(0)
frequency = torch.tensor([0.5, 0.3, 0.2, 0.1, 0.05, 0.02])
tagger = Tagger(weight=(1 / frequency).sqrt())
tagger.bfloat16()
step = torch.compile(tagger)
optimizer = torch.optim.SGD(tagger.parameters(), lr=0.2)

total = 0
kinds = {}
for number in range(10):
    features = torch.randn(32, 12, dtype=torch.bfloat16)
    tags = (torch.rand(32, TAGS) < frequency).bfloat16()
    optimizer.zero_grad()
    loss = step(features, tags)
    loss.backward()
    optimizer.step()
    total = total + loss.detach()
    kinds[str(loss.dtype)] = kinds.get(str(loss.dtype), 0) + loss.element_size()
    if number % 3 == 0:
        print(f"step {number}  loss {loss.item():.3f}")

print("bytes of the log of losses", kinds)
print("sum of losses", round(total.item(), 3), total.dtype)
