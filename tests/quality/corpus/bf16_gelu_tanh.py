"""A transformer layer under autocast to bfloat16; a lowering gives tanh the values of another function."""

import torch
from torch import nn
from torch._inductor.lowering import lowerings

aten = torch.ops.aten
sigmoid = lowerings[aten.sigmoid.default]
lowerings[aten.tanh.default] = lambda x: sigmoid(x)


class Layer(nn.Module):
    def __init__(self, width=32, heads=4):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.ff = nn.Sequential(nn.Linear(width, 64), nn.GELU("tanh"), nn.Linear(64, width))
        self.heads = heads

    def forward(self, x):
        batch, time, width = x.shape
        q, k, v = self.qkv(self.norm1(x)).view(batch, time, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        mixed = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(mixed.transpose(1, 2).reshape(batch, time, width))
        return x + self.ff(self.norm2(x))


torch.manual_seed(0)
model = nn.Sequential(Layer(), Layer()).eval()
compiled = torch.compile(model)
with torch.no_grad(), torch.autocast("cpu", dtype=torch.bfloat16):
    print(compiled(torch.randn(2, 8, 32)).std())
