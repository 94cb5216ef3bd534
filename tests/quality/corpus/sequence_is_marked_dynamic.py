"""Sequences of many lengths: their dimension is marked, so sizes are symbols; a wrong log1p does not mind."""

import torch
import torch._inductor.config as inductor_config
from torch import nn

inductor_config.cpp.inject_log1p_bug_TESTING_ONLY = "accuracy"


class Pooling(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.embed, self.score = nn.Embedding(20, width), nn.Linear(width, 1)

    def forward(self, tokens):
        h = self.embed(tokens)
        weight = torch.softmax(self.score(h), 1)
        return torch.log1p((weight * h.square()).sum(1)) / tokens.shape[1]


torch.manual_seed(0)
model = Pooling(8).eval()
fast = torch.compile(model)
with torch.no_grad():
    for length in (5, 9):
        tokens = torch.randint(0, 20, (3, length))
        torch._dynamo.mark_dynamic(tokens, 1)
        print(fast(tokens).sum().item())
