"""Adam is compiled as a function; its step count is a tensor, and so are the corrections for bias."""

import torch
import torch.nn.functional as F
from torch import nn


@torch.compile
def adam(weight, gradient, mean, square, count, rate):
    count.add_(1)
    mean.mul_(0.9).add_(gradient, alpha=0.1)
    square.mul_(0.99).addcmul_(gradient, gradient, value=0.01)
    size = rate / (1 - 0.9**count)
    spread = (square.sqrt() / (1 - 0.99**count) ** 0.5).add_(1e-8)
    weight.sub_(size * mean / spread)


class Regressor(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(width) / width)

    def forward(self, x):
        return torch.sigmoid(x @ self.weight)


torch.manual_seed(0)
model = Regressor(8)
mean, square, count = torch.zeros(8), torch.zeros(8), torch.zeros(())
for step in range(6):
    x = torch.randn(32, 8)
    loss = F.binary_cross_entropy(model(x), (x[:, 0] > 0).float())
    loss.backward()
    with torch.no_grad():
        adam(model.weight, model.weight.grad, mean, square, count, 0.05)
    model.weight.grad = None
    print(step, round(loss.item(), 4), round(model.weight.norm().item(), 4))
