"""Sampling with a temperature that is read once per run from a table of settings, and remembered."""

import functools

import torch
from torch import nn

SETTINGS = {"temperature": 2.0, "floor": -8.0}


@functools.cache
def setting(name):
    """A setting as it was when it was first asked for."""
    return SETTINGS[name]


class Sampler(nn.Module):
    def __init__(self, width, tokens):
        super().__init__()
        self.read = nn.Linear(width, tokens)

    def forward(self, hidden):
        logits = self.read(hidden).clamp(min=setting("floor"))
        return torch.log_softmax(logits / setting("temperature"), dim=-1)


torch.manual_seed(0)
sampler = Sampler(8, 12)
model = torch.compile(sampler)
hidden = torch.randn(5, 8)

with torch.no_grad():
    for round_number in range(4):
        scores = model(hidden)
        entropy = -(scores.exp() * scores).sum(dim=-1).mean()
        best = scores.max(dim=-1).values.exp().mean()
        print(f"round {round_number}  entropy {entropy.item():.4f}  best {best.item():.4f}")
        # the next run, with another process, is to start from a colder sampler
        SETTINGS["temperature"] *= 0.5

print("temperature in use", setting("temperature"), "for the next run", SETTINGS["temperature"])
