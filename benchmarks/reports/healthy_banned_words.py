"""Healthy: a sampler, colder than one, that never says the same word twice in a row: what it said last is struck out of the scores of this step."""

import torch
from torch import nn


class Softened(nn.Module):
    """Scores (n, words) of a table of successors, made flatter by a temperature."""

    def __init__(self, temperature):
        super().__init__()
        self.temperature = temperature

    def forward(self, scores):
        return scores / self.temperature


def speak(temperature, steps):
    scores = torch.randn(3, 10)
    soften = torch.compile(Softened(temperature))
    said = torch.full((3,), -1)
    counts = torch.zeros(10)
    for _ in range(steps):
        now = soften(scores)
        now[said >= 0, said[said >= 0]] = -float("inf")
        said = now.argmax(dim=1)
        counts += torch.bincount(said, minlength=10)
    left = torch.isfinite(scores).sum().item()
    return counts, left


torch.manual_seed(6)
with torch.no_grad():
    counts, left = speak(temperature=0.8, steps=8)
print("times each word was said", [int(count) for count in counts])
print("different words", int((counts > 0).sum()))
print("scores that are left", left, "of 30")
