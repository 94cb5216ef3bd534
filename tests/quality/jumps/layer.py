"""A layer whose result depends on a jump, and behind it an operator that Inductor's testing switches make wrong.

usage: layer.py JUMP relu|log1p|none [--no-grad] [--backward] [--bf16]

With ``none`` no operator is wrong: what is left is legal rounding in front of the jump, which may turn it.
"""

import sys

import torch
from torch import nn

JUMP, WRONG, FLAGS = sys.argv[1], sys.argv[2], sys.argv[3:]
if WRONG != "none":
    setattr(torch._inductor.config.cpp, f"inject_{WRONG}_bug_TESTING_ONLY", "accuracy")


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.gate = nn.Linear(32, 8)
        self.table = nn.Embedding(64, 32)
        self.up = nn.Linear(32, 64)
        self.down = nn.Linear(64, 32)

    def jump(self, x):
        score = self.gate(x)
        if JUMP == "router":
            weights, experts = score.softmax(-1).topk(2)
            return x + (self.table(experts) * weights.unsqueeze(-1)).sum(-2)
        if JUMP == "codebook":
            return self.table(torch.cdist(x.float(), self.table.weight.float()).argmin(-1))
        if JUMP == "quantiser":  # straight-through
            h = torch.tanh(score @ self.gate.weight)
            return h + (torch.round(h * 7) / 7 - h).detach()
        if JUMP == "bucketize":
            edges = torch.linspace(-1, 1, 15, dtype=x.dtype)
            return x + self.table(torch.bucketize(score.sum(-1), edges))
        if JUMP == "remainder":
            return x + torch.remainder(score.sum(-1, keepdim=True) * 4, 1.0)
        if JUMP == "mask":
            return x.masked_fill(score.mean(-1, keepdim=True) < 0, 0.0)
        if JUMP == "count":
            return x * (score > score.mean(-1, keepdim=True)).sum(-1, keepdim=True).to(x.dtype) / 8
        raise SystemExit(f"no jump is called {JUMP}")

    def forward(self, x):
        h = self.up(self.jump(x))
        h = torch.log1p(h.abs()) if WRONG == "log1p" else torch.relu(h)
        return x + self.down(h)


torch.manual_seed(0)
dtype = torch.bfloat16 if "--bf16" in FLAGS else torch.float32
model = torch.compile(Layer().to(dtype))
with torch.set_grad_enabled("--no-grad" not in FLAGS):
    for step in range(3):
        loss = model(torch.randn(4, 16, 32, dtype=dtype)).float().square().mean()
        if "--backward" in FLAGS:
            loss.backward()
        print(step, loss.item())
