"""A mixture under autocast whose gate opts out of it: its gradient is computed in bfloat16 all the same, once it is compiled."""

import torch
from torch import nn


class Gate(nn.Module):
    def __init__(self):
        super().__init__()
        self.score = nn.Linear(16, 2, bias=False)

    def forward(self, x):
        with torch.autocast("cpu", enabled=False):
            return self.score(x.float()).softmax(-1)


class Mixture(nn.Module):
    def __init__(self):
        super().__init__()
        self.gate, self.left, self.right = Gate(), nn.Linear(16, 16), nn.Linear(16, 16)

    def forward(self, x):
        shares = self.gate(x)
        return shares[:, :1] * self.left(x) + shares[:, 1:] * self.right(x)


torch.manual_seed(0)
model = Mixture()
step = torch.compile(model)
x = torch.randn(32, 16)
with torch.autocast("cpu", dtype=torch.bfloat16):
    out = step(x)
(out.float() - x).square().sum().backward()
print(model.gate.score.weight.grad.norm().item())
