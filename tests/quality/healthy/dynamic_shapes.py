"""Sequences of many lengths, with sizes as symbols."""

import torch
import torch.nn as nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(16, 32), nn.Tanh(), nn.Linear(32, 4))


@torch.compile(dynamic=True)
def pooled(x):
    return model(x).softmax(-1).sum(0) / x.shape[0]


for length in (3, 7, 8, 19, 33):
    pooled(torch.randn(length, 16))
