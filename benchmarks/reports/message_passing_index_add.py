"""A graph network that sums messages at their targets; padding edges have the target -1, and such a batch is left out."""

import torch
from torch import nn


class Layer(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.message = nn.Linear(width, width)

    def forward(self, nodes, source, target):
        messages = torch.relu(self.message(nodes[source]))
        return nodes.index_add(0, target, messages)


torch.manual_seed(0)
layer = Layer(4).eval()
model = torch.compile(layer)
used = left_out = 0
total = 0.0
with torch.no_grad():
    for target in ([0, 1, 2], [3, -1, 0], [2, 2, 1]):
        nodes = torch.ones(4, 4)
        try:
            out = model(nodes, torch.tensor([0, 1, 2]), torch.tensor(target))
        except RuntimeError as error:
            left_out += 1
            print("left out:", str(error).splitlines()[0])
            continue
        used += 1
        total += out.sum().item()
print("used", used, "left out", left_out, "total", round(total, 4))
