"""Evaluates a network while the sharpness of its activation is lowered, until the activation is refused."""

import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.up = nn.Linear(5, 8)
        self.down = nn.Linear(8, 1)

    def forward(self, x, alpha):
        return self.down(nn.functional.celu(self.up(x), alpha))


torch.manual_seed(0)
net = Net().eval()
model = torch.compile(net)
x = torch.randn(16, 5)
results, refused = {}, []
with torch.no_grad():
    for alpha in (1.0, 0.5, 0.0):
        try:
            results[alpha] = model(x, alpha).square().mean().item()
        except RuntimeError as error:
            refused.append(alpha)
            print("refused", alpha, str(error).splitlines()[0])
            continue
        print("alpha", alpha, "mean square", round(results[alpha], 5))
print("results", len(results), "refused", refused)
