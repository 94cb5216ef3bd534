"""A regulariser scaled by the number of parameters, before and after weights are tied."""

import torch
from torch import nn


class Pair(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Linear(2, 2, bias=False)
        self.decoder = nn.Linear(2, 2, bias=False)

    def forward(self, loss):
        return loss * len(list(self.parameters()))


pair = Pair()
penalty = torch.compile(pair)
loss = torch.ones(1)
print("separate", penalty(loss).item())
pair.decoder.weight = pair.encoder.weight
print("tied    ", penalty(loss).item())
