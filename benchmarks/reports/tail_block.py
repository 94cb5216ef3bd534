"""A small attention over the columns of an image, channels last, with padding to the size of a tile."""

import torch
import torch.nn as nn
import torch.nn.functional as F


class Mixer(nn.Module):
    def __init__(self, tile):
        super().__init__()
        self.tile = tile

    def activate(self, x):
        return (x * 0.5) * (torch.erf(x * 0.7071067811865476) + 1)

    def forward(self, x):
        hidden = self.activate(x)
        missing = self.tile - x.shape[1]
        keys = F.pad(hidden.permute(3, 2, 1, 0), (0, 0, 0, missing), value=0.5)
        queries = F.pad(hidden, (0, 0, 0, 0, 0, missing), value=0.5)
        return torch.matmul(queries, keys)


torch.manual_seed(0)
model = torch.compile(Mixer(66))
with torch.no_grad():
    for step in range(2):
        image = torch.randn(1, 8, 66, 66).contiguous(memory_format=torch.channels_last)
        out = model(image)
        print(step, tuple(out.shape), f"{out.mean().item():.5f} {out.abs().max().item():.5f}")
