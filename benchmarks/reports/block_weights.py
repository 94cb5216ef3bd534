"""Weights stored as float16 mantissas with one exponent a block are unpacked when a layer is used."""

import torch
from torch import nn

BLOCK = 8


class Packed(nn.Module):
    """A weight (out, in) whose rows are kept in blocks of 8 mantissas and an exponent in float32."""

    def __init__(self, weight):
        super().__init__()
        blocks = weight.view(weight.shape[0], -1, BLOCK)
        exponent = torch.ceil(torch.log2(blocks.abs().amax(dim=-1, keepdim=True)))
        self.register_buffer("exponent", exponent)
        self.register_buffer("mantissa", torch.ldexp(blocks, -exponent).half())

    def forward(self):
        return torch.ldexp(self.mantissa, self.exponent).flatten(1)


torch.manual_seed(2)
size = torch.tensor([1.0, 1e3, 1e5, 1e-3]).repeat_interleave(4)
unpack = torch.compile(Packed(torch.randn(16, 32) * size[:, None]))

with torch.no_grad():
    for batch in range(3):
        weight = unpack().float()
        out = torch.randn(5, 32) @ weight.T
        means = out.abs().mean(dim=0).view(4, 4).mean(dim=1)
        print(f"batch {batch}  largest weight {weight.abs().max().item():.5g}")
        print("   mean output of each group", [f"{value:.4g}" for value in means.tolist()])
        print("   finite outputs", torch.isfinite(out).sum().item(), "of", out.numel())

print("weights that are zero", (weight == 0).sum().item())
