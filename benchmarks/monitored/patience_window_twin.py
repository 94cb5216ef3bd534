"""Trains with steps scaled by a window of gradient norms, and stops when the window has grown flat."""

import collections
import gc
from dataclasses import dataclass

import torch
from torch import nn


@dataclass
class Config:
    window: int = 4
    rate: float = 0.5
    flat: int = 2
    most: int = 60


class ScaleByHistory(nn.Module):
    def __init__(self, window):
        super().__init__()
        self.window, self.history = window, collections.deque()
        self.spread = 0

    def forward(self, gradient, norm):
        self.history.append(norm)
        if len(self.history) > self.window:
            self.history.popleft()
        self.spread = max(self.history) - min(self.history)
        return gradient * 4 / (sum(self.history) / len(self.history) + 4)


torch.manual_seed(0)
config = Config()
net = nn.Linear(6, 1, bias=False)
scaling = ScaleByHistory(config.window)
scale = torch.compile(scaling)
x = torch.randn(32, 6)
target = x @ torch.arange(6.0)[:, None]
losses = []
for step in range(config.most):
    loss = nn.functional.mse_loss(net(x), target)
    net.zero_grad()
    loss.backward()
    norm = int(torch.nn.utils.get_total_norm([net.weight.grad]))
    with torch.no_grad():
        net.weight -= config.rate / 4 * scale(net.weight.grad, norm)
    losses.append(loss.item())
    if step % 10 == 0:
        found = gc.collect()
        print(f"step {step} loss {loss.item():.4f} norm {norm} unreachable {found}")
    if len(losses) > config.window and scaling.spread <= config.flat:
        break
print("stopped after", step + 1, "steps, loss", losses[-1])
