"""A post-grad pass of the script's own drops additions: it is part of the fault and must travel with the repro."""

import torch
import torch._inductor.config as inductor_config
from torch._inductor.custom_graph_pass import CustomGraphPass

SCALE = 1.5


class DropsAdd(CustomGraphPass):
    def __call__(self, graph):
        for node in list(graph.nodes):
            if node.target is torch.ops.aten.add.Tensor:
                node.replace_all_uses_with(node.args[0])
                graph.erase_node(node)

    def uuid(self):
        return b"drops-add"


inductor_config.post_grad_custom_post_pass = DropsAdd()


def f(x, y):
    h = torch.cos(x) * y
    for _ in range(6):
        h = torch.sin(h) * SCALE
    return (h + y).amax(-1)


torch.manual_seed(0)
torch.compile(f)(torch.randn(8, 32), torch.randn(8, 32))
