"""A decomposition of gelu with a wrong backward, in a model that draws random numbers."""

import torch
from torch import nn
from torch._inductor.decomposition import decompositions

aten = torch.ops.aten


def gelu_backward(gradient, x, approximate="none"):
    return gradient * torch.sigmoid(1.702 * x)


decompositions[aten.gelu_backward.default] = gelu_backward

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Dropout(0.1), nn.Linear(16, 8)).train()
optimizer = torch.optim.SGD(model.parameters(), 0.1)
compiled = torch.compile(model)
for _ in range(3):
    x = torch.randn(4, 8)
    optimizer.zero_grad()
    loss = (compiled(x) - x).square().mean()
    loss.backward()
    optimizer.step()
print(loss.item())
