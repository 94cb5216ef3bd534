"""Nothing is wrong: bf16, dropout, batch norm in training, an optimizer, a graph break, a changing buffer."""

import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.SiLU(), nn.Dropout(0.3))
        self.head = nn.Linear(8, 4)
        self.register_buffer("seen", torch.zeros((), dtype=torch.long))

    def forward(self, x):
        self.seen += len(x)
        h = self.body(x)
        if float(h.float().mean()) > 1e6:
            print("large")
        return self.head(h.mean((2, 3)))


torch.manual_seed(0)
net = Net().to(torch.bfloat16).train()
optimizer = torch.optim.SGD(net.parameters(), 0.1)
step = torch.compile(net)
for _ in range(2):
    step(torch.randn(4, 3, 8, 8, dtype=torch.bfloat16)).float().logsumexp(-1).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
