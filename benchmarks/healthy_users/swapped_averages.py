"""A compiled optimizer step with a rate in a tensor, and averaged weights that are swapped in for every evaluation."""

from contextlib import contextmanager

import torch
from torch import nn


class Averages:
    """Exponential averages of weights; ``decay`` grows with the number of updates."""

    def __init__(self, model, decay):
        self.model, self.decay, self.updates = model, decay, 0
        self.kept = [weight.detach().clone() for weight in model.parameters()]

    @torch.no_grad()
    def update(self):
        self.updates += 1
        decay = min(self.decay, self.updates / (self.updates + 3))
        torch._foreach_lerp_(self.kept, list(self.model.parameters()), 1 - decay)

    @contextmanager
    def swapped_in(self):
        self._swap()
        try:
            yield self.model
        finally:
            self._swap()

    @torch.no_grad()
    def _swap(self):
        for weight, average in zip(self.model.parameters(), self.kept, strict=True):
            current = weight.clone()
            weight.copy_(average)
            average.copy_(current)


def main():
    torch.manual_seed(28)
    model = nn.Sequential(nn.Linear(6, 32), nn.SiLU(), nn.Linear(32, 32), nn.SiLU(), nn.Linear(32, 1))
    optimizer = torch.optim.AdamW(model.parameters(), lr=torch.tensor(1e-2))
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=18)
    averages, evaluate = Averages(model, decay=0.95), torch.compile(model)

    @torch.compile(fullgraph=False)
    def update():
        optimizer.step()

    x, test = torch.randn(128, 6), torch.randn(64, 6)
    rule = torch.randn(6)
    for step in range(18):
        rows = torch.randint(0, 128, (32,))
        loss = nn.functional.mse_loss(model(x[rows])[:, 0], torch.sin(x[rows] @ rule))
        optimizer.zero_grad()
        loss.backward()
        update()
        schedule.step()
        averages.update()
        if step % 6 == 5:
            with averages.swapped_in(), torch.no_grad():
                error = nn.functional.mse_loss(evaluate(test)[:, 0], torch.sin(test @ rule))
            rate = float(optimizer.param_groups[0]["lr"])
            print(f"step {step}: loss {loss.item():.4f}, averaged {error.item():.4f}, rate {rate:.5f}")


main()
