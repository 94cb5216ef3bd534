"""Modes, default types and random streams that are set, read and put back."""

import random

import torch

random.seed(0)
torch.manual_seed(0)


@torch.compile
def noisy(x):
    scale = random.random() + (1 if torch.is_autocast_enabled("cpu") else 0)
    with torch.no_grad():
        noise = torch.rand(2)
    return x * scale + noise + (0 if torch.is_grad_enabled() else 1)


print([round(v, 4) for v in noisy(torch.ones(2)).tolist()])
with torch.autocast("cpu"):
    print([round(v, 4) for v in noisy(torch.ones(2)).tolist()])
with torch.no_grad():
    print([round(v, 4) for v in noisy(torch.ones(2)).tolist()])
torch.set_default_dtype(torch.float64)
print(noisy(torch.ones(2)).dtype, torch.is_grad_enabled(), round(random.random(), 4))
torch.set_default_dtype(torch.float32)
