"""Two sets of running statistics in turn: which one is in use is told by the object itself."""

import torch
import torch.nn as nn


class Slot:
    def __init__(self):
        self.uses = 0


class TwoTempo(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.fast, self.slow = Slot(), Slot()
        self.current = self.fast
        self.proj = nn.Linear(width, width)

    def forward(self, x):
        hidden = torch.tanh(self.proj(x))
        if self.current is self.fast:
            self.current = self.slow
            return hidden * 2.0
        self.current = self.fast
        return hidden * 0.5


torch.manual_seed(0)
model = TwoTempo(6)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
step = torch.compile(model)
x, target = torch.randn(12, 6), torch.zeros(12, 6)
for number in range(6):
    loss = (step(x) - target).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(number, "slow" if model.current is model.slow else "fast", f"{loss.item():.4f}")
