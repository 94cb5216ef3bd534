"""Attention over padded pages: rows without a key are NaN on purpose, and are filled before anything is read; bfloat16."""

import torch
from torch import nn
from torch.nn.functional import scaled_dot_product_attention as attend


class Reader(nn.Module):
    def __init__(self, width, heads, groups):
        super().__init__()
        self.heads, self.groups = heads, groups
        size = width // heads
        self.q, self.kv = nn.Linear(width, width), nn.Linear(width, 2 * groups * size)
        self.out, self.norm = nn.Linear(width, width), nn.LayerNorm(width)

    def forward(self, x, present):
        batch, length, width = x.shape
        y = self.norm(x)
        q = self.q(y).view(batch, length, self.heads, -1).transpose(1, 2)
        k, v = self.kv(y).view(batch, length, 2, self.groups, -1).permute(2, 0, 3, 1, 4)
        k, v = (part.repeat_interleave(self.heads // self.groups, 1) for part in (k, v))
        causal = torch.ones(length, length, dtype=torch.bool).tril()
        bias = torch.zeros(batch, 1, length, length, dtype=x.dtype)
        bias = bias.masked_fill(~(causal & present[:, None, None]), float("-inf"))
        scores = (q @ k.mT / k.shape[-1] ** 0.5 + bias).softmax(-1)
        written_out = scores @ v
        fused = attend(q, k, v, attn_mask=causal & present[:, None, None])
        both = [part.nan_to_num(0.0).transpose(1, 2).reshape(batch, length, width) for part in (written_out, fused)]
        return x + self.out(both[0] + both[1]) * present[..., None], scores.isnan().sum()


def main():
    torch.manual_seed(2)
    reader = Reader(width=32, heads=4, groups=2).bfloat16().eval()
    read = torch.compile(reader)
    with torch.no_grad():
        for length in (12, 12, 20):
            words = torch.randn(3, length, 32).bfloat16()
            present = torch.arange(length) >= torch.tensor([0, length // 2, length])[:, None]
            out, empty = read(words, present)
            print(
                f"length {length}: empty places {int(empty)}, mean {out.float().mean():.3f}, largest {out.abs().max():.2f}"
            )
    bias = torch.randn(3, 12, 32, requires_grad=True)
    head = torch.compile(Reader(width=32, heads=4, groups=4))
    out, _ = head(bias, torch.ones(3, 12, dtype=torch.bool))
    out.square().mean().backward()
    print(f"gradient {bias.grad.norm():.4f}")


main()
