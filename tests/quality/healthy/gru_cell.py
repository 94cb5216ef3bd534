"""A recurrent cell, unrolled."""

import torch
import torch.nn as nn

torch.manual_seed(0)
cell = nn.GRUCell(8, 16)


@torch.compile
def unrolled(x):
    state = x.new_zeros(x.shape[1], 16)
    for moment in x:
        state = cell(moment, state)
    return state


unrolled(torch.randn(6, 4, 8)).sum().backward()
