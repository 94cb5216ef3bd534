"""An import inside of forward picks up the active kernel package."""

import sys
import types

import torch

for name, scale in (("plain", 1.0), ("fast", 3.0)):
    module = types.ModuleType(name)
    module.SCALE = scale
    sys.modules[name] = module
sys.modules["active_kernels"] = sys.modules["plain"]


@torch.compile
def scale(x):
    import active_kernels

    return x * active_kernels.SCALE


x = torch.ones(2)
print("plain", scale(x).tolist())
sys.modules["active_kernels"] = sys.modules["fast"]
print("fast ", scale(x).tolist())
