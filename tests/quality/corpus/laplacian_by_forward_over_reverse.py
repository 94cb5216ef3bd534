"""The energy and its Laplacian in one graph: forward mode over reverse mode, with a wrong log1p below both."""

import torch
import torch._inductor.config as inductor_config

inductor_config.cpp.inject_log1p_bug_TESTING_ONLY = "accuracy"


def energy(x):
    return torch.log1p(x.square()).sum()


@torch.compile
def energy_and_laplacian(x):
    gradient = torch.func.grad(energy)
    return energy(x), sum(torch.func.jvp(gradient, (x,), (e,))[1][i] for i, e in enumerate(torch.eye(3)))


torch.manual_seed(0)
print(energy_and_laplacian(torch.randn(3)))
