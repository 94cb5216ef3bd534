"""The same loss, which logs outside of what is compiled."""

import logging

import torch
from torch import nn

logging.basicConfig(level=logging.WARNING)
log = logging.getLogger("contrastive")


class Contrastive(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.tensor(2.0))

    def forward(self, left, right):
        left, right = nn.functional.normalize(left, dim=-1), nn.functional.normalize(right, dim=-1)
        logits = self.scale.exp() * left @ right.T
        return nn.functional.cross_entropy(logits, torch.arange(left.shape[0]))


def main():
    torch.manual_seed(0)
    left, right, loss = nn.Linear(6, 8), nn.Linear(6, 8), Contrastive()
    parameters = [*left.parameters(), *right.parameters(), *loss.parameters()]
    optimizer = torch.optim.SGD(parameters, lr=0.1)
    compiled = torch.compile(loss, backend="aot_eager")
    x = torch.randn(10, 6)
    for step in range(5):
        log.info("pairs: %d", len(x))
        optimizer.zero_grad()
        value = compiled(left(x), right(x + 0.1 * torch.randn(10, 6)))
        value.backward()
        optimizer.step()
        print(f"step {step}: loss {value.item():.4f}")


main()
