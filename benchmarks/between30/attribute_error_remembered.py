"""A default temperature until the class gets one."""

import torch


class Sampler:
    def __init__(self, top):
        self.top = top


@torch.compile
def scaled(sampler, logits):
    try:
        temperature = sampler.temperature
    except AttributeError:
        temperature = 1.0
    return logits / temperature


sampler = Sampler(4)
logits = torch.tensor([2.0, 4.0])
print("default ", scaled(sampler, logits).tolist())
Sampler.temperature = 2.0  # tuned for all samplers
print("tuned   ", scaled(sampler, logits).tolist())
