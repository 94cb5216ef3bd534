"""A probe that counts the calls of a layer, failed ones included."""

import torch
from torch import nn


class Guarded(nn.Module):
    def forward(self, x):
        if x.shape[0] > 2:
            raise ValueError("batch too large")
        return x * 2


layer = Guarded()
calls = []
layer.register_forward_hook(lambda module, args, out: calls.append(len(calls)), always_call=True)


@torch.compile
def run(x):
    try:
        return layer(x)
    except ValueError:
        return x


for rows in (2, 3, 4):
    y = run(torch.ones(rows))
    print("rows", rows, "sum", y.sum().item(), "calls", len(calls))
