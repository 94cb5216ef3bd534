"""Attention with a sliding window and a bias that falls with the distance, in bf16, forward and backward: legal differences only."""

import sys

import torch
from torch.nn.attention.flex_attention import create_block_mask, flex_attention


def is_seen(batch, head, query, key):
    return (query >= key) & (query - key <= 256)


def with_bias(score, batch, head, query, key):
    return score + (key - query) * torch.exp2(-(head + 1.0))


device = sys.argv[1]
torch.manual_seed(0)
attend = torch.compile(flex_attention)
mask = create_block_mask(is_seen, None, None, 1024, 1024, device=device)
query, key, value = (
    torch.randn(2, 8, 1024, 64, device=device, dtype=torch.bfloat16, requires_grad=True) for _ in range(3)
)
out = attend(query, key, value, score_mod=with_bias, block_mask=mask)
out.float().square().mean().backward()
print(query.grad.float().norm().item())
