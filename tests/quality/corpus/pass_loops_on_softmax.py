"""A post-grad pass waits for a fixpoint that it never reaches once the graph of a classifier has an exponential in it."""

import torch
import torch._inductor.config as inductor_config
from torch import nn

aten = torch.ops.aten


def canonicalize(graph):
    changed = True
    while changed:
        changed = bool(graph.find_nodes(op="call_function", target=aten.exp.default))


inductor_config.post_grad_custom_pre_pass = canonicalize

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(16, 32), nn.Tanh(), nn.Linear(32, 4), nn.LogSoftmax(-1))
with torch.no_grad():
    print(torch.compile(model)(torch.randn(8, 16)).argmax(-1))
