"""A settings module that is filled in after the first step."""

import types

import torch

tuning = types.ModuleType("tuning")


@torch.compile
def clip(grad):
    limit = getattr(tuning, "limit", 10.0)
    return grad.clamp(max=limit)


grad = torch.tensor([1.0, 4.0, 20.0])
print("before", clip(grad).tolist())
tuning.limit = 2.0
print("after ", clip(grad).tolist())
