"""Sharpness-aware minimization: a second pass with weights that are moved in place; the backend packs a weight once for each version."""

import torch
import torch.nn.functional as F
from functorch.compile import make_boxed_func
from torch import nn
from torch._dynamo.backends.common import aot_autograd


def packing(graph, inputs):
    packed = {}

    def run(*args):
        weights = []
        for one in args:
            if one.shape == (8, 4):
                one = packed.setdefault(one._version, one.clone())
            weights.append(one)
        return graph(*weights)

    return make_boxed_func(run)


def backward(graph, inputs):
    return make_boxed_func(graph.forward)


def moved(parameters, radius):
    """Move weights uphill; what brings them back."""
    norm = torch.stack([p.grad.norm() for p in parameters]).norm()
    steps = [radius * p.grad / norm for p in parameters]
    for parameter, step in zip(parameters, steps, strict=True):
        parameter.data.add_(step)
        parameter.grad = None
    return steps


torch.manual_seed(0)
inner, outer = nn.Linear(4, 8), nn.Linear(8, 1)
hidden = torch.compile(lambda x: torch.tanh(inner(x)), backend=aot_autograd(fw_compiler=packing, bw_compiler=backward))
parameters = [*inner.parameters(), *outer.parameters()]
optimizer = torch.optim.SGD(parameters, lr=0.1)
for step in range(4):
    x = torch.randn(16, 4)
    target = x.prod(1)
    loss = F.mse_loss(outer(hidden(x))[:, 0], target)
    loss.backward()
    sharpness = 0.0
    if step > 0:
        steps = moved(parameters, radius=0.5)
        second = F.mse_loss(outer(hidden(x))[:, 0], target)
        second.backward()
        for parameter, way in zip(parameters, steps, strict=True):
            parameter.data.sub_(way)
        sharpness = second.item() - loss.item()
    optimizer.step()
    optimizer.zero_grad()
    print(step, round(loss.item(), 4), round(sharpness, 4))
