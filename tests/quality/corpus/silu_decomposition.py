"""A gated feed-forward network; the decomposition of silu has been replaced by that of another activation."""

import torch
import torch.nn.functional as F
from torch import nn
from torch._inductor.decomposition import register_decomposition

aten = torch.ops.aten
torch._inductor.decomposition.decompositions.pop(aten.silu.default, None)


@register_decomposition([aten.silu.default])
def silu(x):
    return x * torch.sigmoid(1.702 * x)


class SwiGLU(nn.Module):
    def __init__(self, width=16):
        super().__init__()
        self.gate, self.up = nn.Linear(width, 2 * width), nn.Linear(width, 2 * width)
        self.down, self.norm = nn.Linear(2 * width, width), nn.RMSNorm(width)

    def forward(self, x):
        h = self.norm(x)
        return x + self.down(F.silu(self.gate(h)) * self.up(h))


torch.manual_seed(0)
model = nn.Sequential(*(SwiGLU() for _ in range(3)))
x = torch.randn(2, 6, 16)
with torch.no_grad():
    torch.testing.assert_close(torch.compile(model)(x), model(x), rtol=1e-4, atol=1e-4)
