"""No rows at all, and tensors without dimensions."""

import torch
import torch.nn as nn

torch.manual_seed(0)
linear = nn.Linear(4, 2)


@torch.compile
def edges(x, s):
    return linear(x), x.sum(), s * 3, x.amax() if x.numel() else s


edges(torch.randn(0, 4), torch.tensor(2.0))
edges(torch.randn(3, 4), torch.tensor(-2.0))
