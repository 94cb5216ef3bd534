"""Healthy: frames in channels-last layout go through a shuffle of channels, and are handed on to a writer of interleaved rows."""

import torch
from torch import nn


class Mixer(nn.Module):
    """Frames (n, c, h, w), in two groups of channels that are mixed after each has been scaled."""

    def __init__(self, channels, groups):
        super().__init__()
        self.groups = groups
        self.gain = nn.Parameter(torch.linspace(0.5, 1.5, channels).view(1, channels, 1, 1))

    def forward(self, frames):
        order = torch.arange(frames.shape[1]).view(self.groups, -1).T.flatten()
        return (frames * self.gain)[:, order].contiguous(memory_format=torch.channels_last)


class Writer:
    """Takes frames as rows of interleaved channels; what lies otherwise is copied first."""

    def __init__(self):
        self.taken = 0
        self.copied = 0

    def rows(self, frame):
        pixels = frame.permute(0, 2, 3, 1)
        if pixels.is_contiguous():
            self.taken += 1
        else:
            self.copied += 1
            pixels = pixels.contiguous()
        return pixels.view(-1, frame.shape[1])


torch.manual_seed(5)
mix = torch.compile(Mixer(channels=6, groups=2))
writer = Writer()
with torch.no_grad():
    for number in range(4):
        frames = torch.rand(1, 6, 4, 5).to(memory_format=torch.channels_last)
        rows = writer.rows(mix(frames))
        print(f"frame {number}  rows {tuple(rows.shape)}  mean {rows.mean().item():.4f}")

print("taken as they were", writer.taken, "copied", writer.copied)
