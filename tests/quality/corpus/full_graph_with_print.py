"""One graph is demanded, and the function writes to a file in between."""

import io

import torch
from torch import nn

log = io.StringIO()


class Monitor(nn.Module):
    def __init__(self):
        super().__init__()
        self.proj = nn.Linear(4, 4)

    def forward(self, x):
        h = torch.relu(self.proj(x))
        log.write(f"{h.mean().item():.3f}\n")
        return h.softmax(-1)


torch.manual_seed(0)
monitor = Monitor()
print(torch.compile(monitor, fullgraph=True)(torch.randn(2, 4)))
