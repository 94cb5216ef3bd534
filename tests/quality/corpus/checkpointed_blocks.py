"""A deep model that recomputes its blocks in the backward: what a checkpoint runs is captured as a graph of its own."""

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

torch._inductor.config.cpp.inject_relu_bug_TESTING_ONLY = "accuracy"


class Deep(nn.Module):
    def __init__(self, width, depth):
        super().__init__()
        self.blocks = nn.ModuleList(
            nn.Sequential(nn.LayerNorm(width), nn.Linear(width, width), nn.ReLU()) for _ in range(depth)
        )

    def forward(self, x):
        for block in self.blocks:
            x = x + checkpoint(block, x, use_reentrant=False)
        return x


torch.manual_seed(0)
model = Deep(8, 3)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
fast = torch.compile(model)
for _ in range(2):
    loss = fast(torch.randn(4, 8)).square().mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    print(loss.item())
