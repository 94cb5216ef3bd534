"""Gradients of micro-batches are accumulated; the backward of the backend keeps a copy of the gradients of each call in the same buffers."""

import torch
import torch.nn.functional as F
from functorch.compile import make_boxed_func
from torch import nn
from torch._dynamo.backends.common import aot_autograd


def forward(graph, inputs):
    return make_boxed_func(graph.forward)


def in_buffers(graph, inputs):
    buffers = {}

    def run(*args):
        made = []
        for index, one in enumerate(graph(*args)):
            if one is not None:
                buffer = buffers.setdefault(index, torch.empty(one.numel()))
                buffer.copy_(one.flatten())
            made.append(one)
        return made

    return make_boxed_func(run)


class Mixer(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.gate, self.value = nn.Linear(width, width), nn.Linear(width, width)

    def forward(self, x):
        return torch.sigmoid(self.gate(x)) * self.value(x)


torch.manual_seed(0)
mixer, head = Mixer(6), nn.Linear(6, 1)
mixed = torch.compile(mixer, backend=aot_autograd(fw_compiler=forward, bw_compiler=in_buffers))
optimizer = torch.optim.SGD([*mixer.parameters(), *head.parameters()], lr=0.1)
for step in range(4):
    total = 0.0
    for _ in range(1 if step == 0 else 3):
        x = torch.randn(8, 6)
        loss = F.mse_loss(head(mixed(x))[:, 0], x[:, 0] * x[:, 1])
        loss.backward()
        total += loss.item()
    norm = nn.utils.clip_grad_norm_(mixer.parameters(), 1.0)
    optimizer.step()
    optimizer.zero_grad()
    print(step, round(total, 4), round(norm.item(), 4))
