"""An operator of the script's own launches a Triton kernel that writes to its input, and does not say so: Inductor moves other uses."""

import sys

import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def scale_in_place(values, count, factor, BLOCK: tl.constexpr):
    places = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(values + places, tl.load(values + places, mask=places < count) * factor, mask=places < count)


@torch.library.custom_op("serve::rescale", mutates_args=())
def rescale(x: torch.Tensor, factor: float) -> torch.Tensor:
    scale_in_place[(triton.cdiv(x.numel(), 256),)](x, x.numel(), factor, BLOCK=256)
    return x.sum(-1)


@rescale.register_fake
def _(x, factor):
    return x.new_empty(x.shape[:-1])


class Head(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(64, 64)

    def forward(self, x):
        y = torch.tanh(self.linear(x))
        z = y + 1
        total = rescale(y, 0.5)
        return (y * z).sum(-1) + total


device = sys.argv[1]
torch.manual_seed(0)
model = Head().to(device).eval()
with torch.no_grad():
    print(torch.compile(model)(torch.randn(8, 64, device=device)))
