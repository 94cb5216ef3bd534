"""Particles in a box that is open on one side: there a period of infinity means that nobody comes in again."""

import torch
from torch import nn


class Step(nn.Module):
    def __init__(self, periods, pull):
        super().__init__()
        self.register_buffer("periods", torch.tensor(periods))
        self.pull = pull

    def forward(self, place, speed):
        speed = speed - self.pull * torch.sin(place)
        place = torch.remainder(place + 0.1 * speed, self.periods)
        return place, speed


torch.manual_seed(0)
step = torch.compile(Step(periods=[4.0, 4.0, float("inf")], pull=0.2))
place = torch.rand(32, 3) * 3 + 0.5
speed = 0.3 * torch.rand(32, 3)
for frame in range(6):
    place, speed = step(place, speed)
    energy = speed.square().sum(1).mean().item()
    print("frame", frame, "energy", round(energy, 5), "farthest", round(place[:, 2].max().item(), 4))
