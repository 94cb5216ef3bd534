"""Scores that are almost equal: which is the largest depends on the last bit."""

import torch

torch.manual_seed(0)
base = torch.randn(1, 32)


@torch.compile
def winner(x):
    scores = (x @ x.T / 5.656854).softmax(-1)
    return scores.argmax(-1), scores.max(-1).values


winner(base + 1e-7 * torch.randn(32, 32))
