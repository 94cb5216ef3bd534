"""Forward-mode AD inside of what is compiled: the derivative of a density along a direction, with a wrong log1p."""

import torch
import torch._inductor.config as inductor_config

inductor_config.cpp.inject_log1p_bug_TESTING_ONLY = "accuracy"


def log_density(x, shift):
    return -torch.log1p((x - shift).square()).sum(-1)


@torch.compile
def directional(x, direction, shift):
    value, slope = torch.func.jvp(lambda x: log_density(x, shift), (x,), (direction,))
    return value + 0.5 * slope


torch.manual_seed(0)
x, direction, shift = torch.randn(5, 3), torch.randn(5, 3), torch.randn(3)
print(directional(x, direction, shift))
