"""A training loop that compares nothing; a pass gives the backward of tanh the sign of the forward value."""

import torch
import torch._inductor.config as inductor_config
import torch._inductor.decomposition
from torch import nn

aten = torch.ops.aten


def wrong_derivative(graph):
    for node in graph.find_nodes(op="call_function", target=aten.tanh_backward.default):
        node.target = aten.mul.Tensor


inductor_config.joint_custom_pre_pass = wrong_derivative
torch._inductor.decomposition.decompositions.pop(aten.tanh_backward.default, None)

torch.manual_seed(0)
critic = nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, 16), nn.SiLU(), nn.Linear(16, 1))
optimizer = torch.optim.SGD(critic.parameters(), 0.05, momentum=0.9)
compiled = torch.compile(critic)
for _ in range(4):
    states = torch.randn(8, 6)
    loss = (compiled(states).squeeze(-1) - states.sum(-1)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(loss.item())
