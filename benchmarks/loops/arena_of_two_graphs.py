"""Two compiled filters write their results into one arena, which the second one takes from its beginning again."""

import torch
from torch import nn

ARENA = torch.zeros(1 << 12)
TAKEN = {}


def in_arena(graph, inputs):
    number = len(TAKEN)
    TAKEN[number] = 0

    def run(*args):
        results = []
        offset = 0 if number > 1 else number * 1024
        for one in graph(*args):
            place = ARENA[offset : offset + one.numel()].view(one.shape)
            results.append(place.copy_(one))
            offset += one.numel()
        return tuple(results)

    return run


@torch.compile(backend=in_arena)
def low(x):
    return x.cumsum(0) / (1 + x.abs().sum())


@torch.compile(backend=in_arena)
def high(x):
    return x - x.roll(1, 0)


class Mixer(nn.Module):
    def __init__(self):
        super().__init__()
        self.share = nn.Parameter(torch.tensor(0.3))

    def forward(self, a, b):
        return (a * self.share + b * (1 - self.share)).tanh()


torch.manual_seed(0)
mixer, levels = Mixer(), []
with torch.no_grad():
    for length in (24, 24, 32, 32):
        signal = torch.randn(length).cumsum(0)
        slow = low(signal)
        fast = high(signal)
        levels.append(mixer(slow, fast).mean().item())
print([round(one, 4) for one in levels])
