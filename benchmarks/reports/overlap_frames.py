"""Loudness of overlapping frames of two channels; frames are views of the padded signal."""

import math

import torch
import torch.nn.functional as F


class Loudness:
    def __init__(self, frame, hop):
        self.frame = frame
        self.hop = hop
        self.window = torch.hann_window(frame)

    def __call__(self, signal):
        padded = F.pad(signal, (self.frame // 2, self.frame // 2))
        trimmed = padded[:, 1:]
        count = (trimmed.shape[1] - self.frame) // self.hop
        frames = trimmed.as_strided((trimmed.shape[0], count, self.frame), (trimmed.stride(0), self.hop, 1))
        power = (frames * self.window).square().mean(-1)
        return 10.0 * torch.log10(power + 1e-6)


time = torch.arange(256) / 64.0
left = torch.sin(2 * math.pi * 3 * time)
right = torch.linspace(0, 1, 256) * torch.sin(2 * math.pi * 7 * time)
signal = torch.stack([left, right])

loudness = torch.compile(Loudness(frame=32, hop=16))
levels = loudness(signal)
for name, level in zip(("left", "right"), levels, strict=True):
    print(f"{name:5s} loudest {level.max().item():8.3f} dB  mean {level.mean().item():8.3f} dB")
print("difference at the end", round((levels[0, -1] - levels[1, -1]).item(), 4))
