"""A pass that depends on the order of a set of objects drops a residual connection in some compilations."""

import os

import torch
import torch._inductor.config as inductor_config
from torch import nn

aten = torch.ops.aten
inductor_config.force_disable_caches = True


def drop_one(graph):
    found = graph.find_nodes(op="call_function", target=aten.add.Tensor)
    if found and os.urandom(1)[0] % 4:
        found[-1].replace_all_uses_with(found[-1].args[0])
        graph.erase_node(found[-1])


inductor_config.post_grad_custom_post_pass = drop_one

torch.manual_seed(0)
body = nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Linear(16, 8))


@torch.compile
def residual(x):
    return torch.sin(x) + body(x)


with torch.no_grad():
    print(residual(torch.randn(4, 8)).norm())
