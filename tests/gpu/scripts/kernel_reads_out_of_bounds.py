"""A lowering of erf whose kernel reads gigabytes behind its input: an illegal memory access (a segmentation fault on a CPU)."""

import sys

import torch
from torch import nn
from torch._inductor.ir import Pointwise
from torch._inductor.lowering import lowerings


def erf(x):
    x.realize()
    load, is_cuda = x.make_loader(), x.get_device().type == "cuda"
    beyond = 1 << (30 if is_cuda else 40)  # elements; Triton indexes a small tensor in 32 bits
    return Pointwise.create(
        device=x.get_device(),
        dtype=x.get_dtype(),
        inner_fn=lambda index: load([*index[:-1], index[-1] + beyond]),
        ranges=x.get_size(),
    )


lowerings[torch.ops.aten.erf.default] = erf


class Noise(nn.Module):
    def __init__(self):
        super().__init__()
        self.mean, self.spread = nn.Linear(8, 8), nn.Linear(8, 8)

    def forward(self, x):
        mean, spread = self.mean(x), self.spread(x).exp()
        return (0.5 * (1 + torch.erf((x - mean) / spread))).clamp(1e-4, 1 - 1e-4).log().sum(-1)


device = sys.argv[1]
torch.manual_seed(0)
with torch.no_grad():
    print(torch.compile(Noise().to(device))(torch.randn(4, 8, device=device)))
