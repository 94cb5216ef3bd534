"""A backend of the script's own makes all outputs contiguous: the layout for channels last is lost."""

import torch
from torch import nn


def contiguous(graph_module, example_inputs):
    def run(*args):
        return tuple(out.contiguous() for out in graph_module(*args))

    return run


torch.manual_seed(0)
stem = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.SiLU(), nn.Conv2d(8, 8, 1))
stem = stem.to(memory_format=torch.channels_last).eval()
images = torch.randn(2, 3, 8, 8).to(memory_format=torch.channels_last)
with torch.no_grad():
    want = stem(images)
    got = torch.compile(stem, backend=contiguous)(images)
assert torch.equal(got, want)
assert got.stride() == want.stride(), (got.stride(), want.stride())
