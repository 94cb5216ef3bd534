"""Sensitivities of a small matrix chain in half precision, by forward-mode Jacobians."""

import torch


def energy(x):
    gram = torch.mm(torch.prod(x) + x, torch.sum(x) + x)
    return torch.sum(torch.mm(gram, torch.sum(x) + x))


class Probe:
    def __init__(self, function):
        self.jacobian = torch.compile(torch.func.jacfwd(function))
        self.seen = []

    def __call__(self, x):
        slope = self.jacobian(x)
        self.seen.append(slope.abs().max().item())
        return slope


torch.manual_seed(0)
probe = Probe(energy)
x = (torch.arange(1, 10, dtype=torch.float16) / 10).reshape(3, 3)
for step in range(3):
    slope = probe(x)
    x = x - 1e-5 * slope
    print("step", step, "largest", probe.seen[-1], "energy", round(energy(x.float()).item(), 3))
