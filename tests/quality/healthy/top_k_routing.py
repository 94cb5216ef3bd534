"""A mixture of experts: the router's order decides which expert a token goes to."""

import torch
import torch.nn as nn

torch.manual_seed(0)
experts = nn.ModuleList(nn.Linear(16, 16) for _ in range(4))
router = nn.Linear(16, 4)


@torch.compile
def mixture(x):
    weights, chosen = router(x).softmax(-1).topk(2)
    every = torch.stack([expert(x) for expert in experts], 1)
    return (every.gather(1, chosen[..., None].expand(-1, -1, 16)) * weights[..., None]).sum(1)


mixture(torch.randn(64, 16)).sum().backward()
