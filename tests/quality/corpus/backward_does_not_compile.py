"""The backward of a cosine cannot be lowered; forward all is well."""

import torch
from torch import nn
from torch._inductor.lowering import lowerings


def sin(x):
    raise NotImplementedError(f"sin is not implemented for {x.get_dtype()}")


lowerings[torch.ops.aten.sin.default] = sin


class Fourier(nn.Module):
    def __init__(self):
        super().__init__()
        self.phase = nn.Parameter(torch.randn(16))
        self.out = nn.Linear(16, 4)

    def forward(self, x):
        return self.out(x * torch.cos(self.phase))


torch.manual_seed(0)
model = nn.Sequential(nn.Linear(8, 16), nn.GELU(), Fourier())
torch.compile(model)(torch.randn(4, 8)).square().mean().backward()
