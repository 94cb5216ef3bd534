"""Multi-task training at a small learning rate: the first task of a table that rotates has most of the weight."""

import argparse
import time
import weakref

import torch
from torch import nn

parser = argparse.ArgumentParser()
parser.add_argument("--rate", type=float, default=2e-6)
parser.add_argument("--rounds", type=int, default=3)
options = parser.parse_args([])


class Head(nn.Module):
    def __init__(self, parent):
        super().__init__()
        self.fc = nn.Linear(8, 1)
        self.parent = weakref.ref(parent)

    def forward(self, x):
        return self.fc(x)


class Net(nn.Module):
    def __init__(self, tasks):
        super().__init__()
        self.body = nn.Linear(6, 8)
        self.heads = nn.ModuleDict({task: Head(self) for task in tasks})
        self.priority = list(tasks)

    def forward(self, x):
        hidden = torch.tanh(self.body(x))
        main = self.priority[0]
        total = 0.0
        for task in self.heads:
            total = total + (10.0 if task == main else 1.0) * self.heads[task](hidden).square().mean()
        return total


torch.manual_seed(0)
net = Net(["caption", "retrieval", "vqa"])
model = torch.compile(net)
before = {name: value.detach().clone() for name, value in net.named_parameters()}
started, log = time.perf_counter(), []
for number in range(options.rounds):
    loss = model(torch.randn(16, 6))
    net.zero_grad()
    loss.backward()
    with torch.no_grad():
        for parameter in net.parameters():
            parameter -= options.rate * parameter.grad
    log.append({"main": net.priority[0], "seconds": time.perf_counter() - started})
    net.priority.append(net.priority.pop(0))
moved = {name: (value - before[name]).abs().sum().item() for name, value in net.named_parameters()}
print("order", [row["main"] for row in log], f"{log[-1]['seconds']:.1f} s")
print("moved", {name: f"{value:.3g}" for name, value in moved.items() if "heads" in name and "weight" in name})
