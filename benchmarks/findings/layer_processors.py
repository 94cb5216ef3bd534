"""Blocks that are compiled one by one, each with an attention processor of its own: its number is a constant of the program."""

import torch
from torch import nn


class Processor:
    def __init__(self, layer):
        self.layer = layer

    def __call__(self, q, k, v):
        return nn.functional.scaled_dot_product_attention(q, k, v) / (1 + self.layer) ** 0.5


class Block(nn.Module):
    def __init__(self, width, heads, processor):
        super().__init__()
        self.heads, self.processor = heads, processor
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.norm = nn.LayerNorm(width)

    def forward(self, x):
        batch, length, width = x.shape
        q, k, v = self.qkv(self.norm(x)).view(batch, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        mixed = self.processor(q, k, v).transpose(1, 2).reshape(batch, length, width)
        return x + self.out(mixed)


class Denoiser(nn.Module):
    def __init__(self, depth, width=16, heads=2):
        super().__init__()
        self.blocks = nn.ModuleList([Block(width, heads, Processor(layer)) for layer in range(depth)])

    def compile_blocks(self):
        for block in self.blocks:
            block.compile(backend="aot_eager")

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return x


def main():
    torch.manual_seed(0)
    model = Denoiser(depth=12).eval()
    model.compile_blocks()
    with torch.no_grad():
        x = torch.randn(1, 6, 16)
        for step in range(3):
            x = x - 0.1 * model(x)
            print(f"step {step}: {x.norm().item():.4f}")


main()
