"""Domain-adversarial training: the strength of the reversal is an argument of the next forward."""

import gc
import time
from types import SimpleNamespace

import torch
from torch import nn

schedule = SimpleNamespace(strength=1.0, set_at=time.monotonic())


class Reverse(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.clone()

    @staticmethod
    def backward(ctx, grad):
        return -grad


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body, self.label, self.domain = nn.Linear(6, 8), nn.Linear(8, 2), nn.Linear(8, 2)

    def forward(self, x, strength):
        hidden = torch.relu(self.body(x))
        return self.label(hidden), self.domain(Reverse.apply(hidden * strength))


torch.manual_seed(0)
net = Net()
model = torch.compile(net)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
sizes, started = [], time.perf_counter()
for step in range(4):
    x, labels, domains = torch.randn(12, 6), torch.randint(0, 2, (12,)), torch.randint(0, 2, (12,))
    label, domain = model(x, torch.tensor(schedule.strength))
    apart = nn.functional.cross_entropy(domain, domains)
    loss = nn.functional.cross_entropy(label, labels) + apart
    schedule.strength = min(1.0, 0.2 * (step + 1)) * float(apart.detach())
    schedule.set_at = time.monotonic()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    sizes.append(net.body.weight.grad.norm().item())
    if step % 2:
        print("step", step, "objects", len(gc.get_objects()), f"{time.perf_counter() - started:.1f} s")
print("gradients", [round(value, 5) for value in sizes], "strength", round(schedule.strength, 4))
