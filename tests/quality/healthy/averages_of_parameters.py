"""Each parameter knows its moving average, and the average knows its parameter."""

import torch
import torch.nn as nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(6, 12), nn.ReLU(), nn.Linear(12, 3))
        for p in self.parameters():
            p.shadow = p.detach().clone()
            p.shadow.source = p

    def forward(self, x):
        return self.body(x)


if __name__ == "__main__":
    torch.manual_seed(0)
    net = Net()
    step = torch.compile(net)
    opt = torch.optim.SGD(net.parameters(), 0.1)
    for i in range(4):
        loss = step(torch.randn(5, 6)).square().mean()
        loss.backward()
        opt.step()
        opt.zero_grad()
        with torch.no_grad():
            for p in net.parameters():
                p.shadow.lerp_(p, 0.1)
        print(i, loss.item())
