"""A recurrent loop that is unrolled; a pass turns `1 - z` around."""

import torch
import torch._inductor.config as inductor_config
from torch import nn
from torch._inductor.custom_graph_pass import CustomGraphPass

aten = torch.ops.aten


class SwapSub(CustomGraphPass):
    def __call__(self, graph):
        for node in graph.find_nodes(op="call_function", target=aten.sub.Tensor):
            if not isinstance(node.args[0], torch.fx.Node):
                node.args = node.args[::-1]

    def uuid(self):
        return "swap-sub"


inductor_config.post_grad_custom_pre_pass = SwapSub()


class Cell(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.gate, self.candidate = nn.Linear(2 * width, width), nn.Linear(2 * width, width)

    def forward(self, x, h):
        both = torch.cat([x, h], -1)
        z = torch.sigmoid(self.gate(both))
        return torch.rsub(z, 1) * h + z * torch.tanh(self.candidate(both))


torch.manual_seed(0)
cell = Cell(8)


def encode(sequence):
    h = torch.zeros(sequence.shape[1], 8)
    for x in sequence:
        h = cell(x, h)
    return h


sequence = torch.randn(6, 4, 8)
torch.testing.assert_close(torch.compile(encode)(sequence), encode(sequence), rtol=1e-4, atol=1e-5)
