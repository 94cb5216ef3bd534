"""flex_attention under a causal mask, with a score that falls by slopes of the model's own: its log1p is wrong."""

import torch
import torch._inductor.config as inductor_config
from torch import nn
from torch.nn.attention.flex_attention import create_block_mask, flex_attention

inductor_config.cpp.inject_log1p_bug_TESTING_ONLY = "accuracy"


class Attention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.qkv, self.heads = nn.Linear(width, 3 * width), heads
        self.slopes = nn.Parameter(torch.arange(1.0, heads + 1))

    def forward(self, x, mask):
        b, s, w = x.shape
        q, k, v = (t.view(b, s, self.heads, w // self.heads).transpose(1, 2) for t in self.qkv(x).chunk(3, -1))

        def bias(score, batch, head, query, key):
            return score - torch.log1p(self.slopes[head] * (query - key).abs())

        return flex_attention(q, k, v, score_mod=bias, block_mask=mask).transpose(1, 2).reshape(b, s, w)


torch.manual_seed(0)
mask = create_block_mask(lambda b, h, i, j: i >= j, None, None, 128, 128, device="cpu")
attention = Attention(32, 2).eval()
with torch.no_grad():
    print(torch.compile(attention)(torch.randn(1, 128, 32), mask).sum())
