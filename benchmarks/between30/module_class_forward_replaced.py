"""A layer type is patched after the model has been compiled."""

import torch
from torch import nn


class Gate(nn.Module):
    def forward(self, x):
        return torch.sigmoid(x)


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.gate = Gate()

    def forward(self, x):
        return x * self.gate(x)


def hard_gate(self, x):
    return (x > 0).to(x.dtype)


block = torch.compile(Block())
x = torch.tensor([-1.0, 0.5])
print("soft", [round(v, 3) for v in block(x).tolist()])
Gate.forward = hard_gate
print("hard", [round(v, 3) for v in block(x).tolist()])
