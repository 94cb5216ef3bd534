"""A lowering fails in some compilations: a race in a cache that another process also fills, as the script has it."""

import random

import torch
import torch._inductor.config as inductor_config
from torch._inductor.lowering import lowerings

inductor_config.force_disable_caches = True
source = random.SystemRandom()
erf = lowerings[torch.ops.aten.erf.default]


def racing_erf(x):
    if source.random() < 0.7:
        raise RuntimeError("the table of coefficients is not there yet")
    return erf(x)


lowerings[torch.ops.aten.erf.default] = racing_erf


def blur(image, width):
    grid = torch.arange(-3.0, 4.0)
    kernel = 0.5 * (torch.erf((grid + 0.5) / width) - torch.erf((grid - 0.5) / width))
    kernel = kernel / kernel.sum()
    return torch.nn.functional.conv1d(image[:, None], kernel[None, None], padding=3)[:, 0]


torch.manual_seed(0)
print(torch.compile(blur)(torch.randn(2, 16), torch.tensor(1.5)).shape)
