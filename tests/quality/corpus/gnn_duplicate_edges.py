"""A graph convolution; a pass takes an accumulating index_put for a plain one, which loses edges into the same node."""

import torch
import torch._inductor.config as inductor_config
from torch import nn

aten = torch.ops.aten


def no_accumulation(graph):
    for node in graph.find_nodes(op="call_function", target=aten.index_put.default):
        node.args = node.args[:3]


inductor_config.joint_custom_post_pass = no_accumulation


class GraphConv(nn.Module):
    def __init__(self, inputs, outputs):
        super().__init__()
        self.own, self.neighbours = nn.Linear(inputs, outputs), nn.Linear(inputs, outputs, bias=False)

    def forward(self, nodes, source, target):
        gathered = torch.zeros_like(nodes).index_put((target,), nodes[source], accumulate=True)
        degree = torch.bincount(target, minlength=12).clamp(min=1).unsqueeze(-1)
        return torch.tanh(self.own(nodes) + self.neighbours(gathered / degree))


torch.manual_seed(0)
first, second = GraphConv(6, 6), GraphConv(6, 2)
source, target = torch.arange(24) % 12, torch.arange(24) % 5


@torch.compile
def network(nodes):
    return second(first(nodes, source, target), source, target).softmax(-1)


with torch.no_grad():
    print(network(torch.randn(12, 6)).sum())
