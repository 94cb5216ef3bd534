"""The step of an optimizer is compiled; a pass drops the division by the second moment."""

import torch
import torch._inductor.config as inductor_config
from torch import nn

aten = torch.ops.aten


def drop_divisions(graph):
    for node in graph.find_nodes(op="call_function", target=aten.div.Tensor):
        node.replace_all_uses_with(node.args[0])
        graph.erase_node(node)


inductor_config.post_grad_custom_pre_pass = drop_divisions


class Momentum:
    def __init__(self, parameters):
        self.parameters = list(parameters)
        self.squares = [torch.zeros_like(p) for p in self.parameters]

    @torch.no_grad()
    def step(self):
        for parameter, square in zip(self.parameters, self.squares, strict=True):
            square.mul_(0.99).addcmul_(parameter.grad, parameter.grad, value=0.01)
            parameter.sub_(0.01 * parameter.grad / (square.sqrt() + 1e-8))


torch.manual_seed(0)
model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))
optimizer = Momentum(model.parameters())
step = torch.compile(optimizer.step)
for _ in range(2):
    model(torch.randn(16, 4)).square().mean().backward()
    step()
    model.zero_grad(set_to_none=False)
print(sum(p.square().sum().item() for p in model.parameters()))
