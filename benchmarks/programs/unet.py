"""Sampling from a diffusion U-Net, with images of several sizes."""

import torch
from spot import bend, level, moment
from torch import nn


class Stage(nn.Module):
    def __init__(self, path, inputs, width):
        super().__init__()
        self.conv, self.time, self.norm = (
            nn.Conv2d(inputs, width, 3, padding=1),
            nn.Linear(8, width),
            nn.GroupNorm(2, width),
        )
        self.register_buffer("level", level(path))

    def forward(self, x, time, when):
        return bend(self.norm(self.conv(x) + self.time(time)[:, :, None, None]), self.level * when)


class UNet(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.down = nn.ModuleList([Stage("down.0", 2, width)])
        self.middle = Stage("middle", width, width)
        self.up = nn.ModuleList([Stage("up.0", 2 * width, width)])
        self.out = nn.Conv2d(width, 2, 1)

    def forward(self, x, time, when):
        kept = []
        for stage in self.down:
            kept.append(x := stage(x, time, when))
            x = nn.functional.avg_pool2d(x, 2)
        x = self.middle(x, time, when)
        for stage in self.up:
            x = nn.functional.interpolate(x, scale_factor=2, mode="nearest")
            x = stage(torch.cat([x, kept.pop()], 1), time, when)
        return self.out(x)


torch.manual_seed(0)
model = UNet(6).eval()
compiled = torch.compile(model)
with torch.no_grad():
    for size in (8, 16, 12):
        x = torch.randn(2, 2, size, size)
        for step in range(10):
            time = torch.sin(torch.arange(8) * (1 + step)).expand(2, 8)
            x = x - 0.05 * compiled(x, time, moment(size=size, step=step))
