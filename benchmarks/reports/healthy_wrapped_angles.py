"""Healthy: angles of pendulums wrapped into one turn, with their winding numbers counted where they jump."""

import torch
from torch import nn


class Step(nn.Module):
    def forward(self, angle, speed):
        speed = speed - 0.1 * torch.sin(angle)
        turned = angle + 0.1 * speed
        wrapped = torch.remainder(turned, 2 * torch.pi)
        jumps = ((wrapped - turned).abs() > torch.pi).sum(1)
        return wrapped, speed, jumps


torch.manual_seed(0)
step = torch.compile(Step())
angle, speed = torch.rand(8, 16) * 6, 4 * torch.randn(8, 16)
windings = torch.zeros(8, dtype=torch.int64)
for frame in range(40):
    angle, speed, jumps = step(angle, speed)
    windings += jumps
print("windings", windings.tolist())
print("mean angle", round(angle.mean().item(), 4), "energy", round(speed.square().mean().item(), 4))
