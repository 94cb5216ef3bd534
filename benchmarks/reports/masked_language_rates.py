"""Draws masks for pretraining with rates that grow; rates above one are clipped where they are refused."""

import torch
from torch import nn


class Masker(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.rate = nn.Parameter(torch.full((width,), 0.6), requires_grad=False)

    def forward(self, tokens, boost):
        mask = torch.bernoulli(self.rate * boost)
        return tokens * (1 - mask), mask.mean()


torch.manual_seed(0)
masker = Masker(8)
draw = torch.compile(masker)
clipped = 0
for boost in (0.5, 1.0, 2.0):
    tokens = torch.arange(8.0)
    boosts = torch.tensor(boost)
    try:
        kept, share = draw(tokens, boosts)
    except RuntimeError:
        clipped += 1
        kept, share = draw(tokens, boosts.clamp(max=1.0))
    print("boost", boost, "kept", int((kept > 0).sum()), "share", round(share.item(), 3))
print("clipped", clipped)
