"""How fast does a generated picture change with the time it is generated for? One derivative for each sample."""

import torch
from torch import nn


class Flow(nn.Module):
    """A small picture for a time and a seed picture."""

    def __init__(self, side):
        super().__init__()
        self.mix = nn.Linear(side, side)

    def forward(self, time, picture):
        phase = torch.sin(time) * picture
        return (picture * torch.sin(time)).sum() * self.mix(phase)


torch.manual_seed(0)
flow = Flow(5)


@torch.compile
def rates(times, pictures):
    """Derivative of each sample's picture by its own time."""
    return torch.vmap(torch.func.jacfwd(flow))(times, pictures)


speed = 0.0
for batch in range(3):
    times = torch.linspace(0.1, 1.0, 4) + batch
    pictures = torch.randn(4, 5, 5)
    with torch.no_grad():
        change = rates(times, pictures)
    speed += change.abs().mean().item()
    fastest = change.flatten(1).norm(dim=1).argmax().item()
    print(f"batch {batch}: fastest sample {fastest}, mean rate {change.abs().mean().item():.4f}")
print("speed", round(speed, 4))
