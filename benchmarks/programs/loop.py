"""A loop of 5,000 calls of one graph, with a list that grows beside it."""

import torch
from spot import bend, level, moment

at, seen = level("loop"), []


@torch.compile
def step(state, x, at):
    return torch.tanh(0.9 * state + bend(x, at))


torch.manual_seed(0)
state = torch.zeros(32)
for number in range(5000):
    state = step(state, torch.randn(32), at * moment(number=number))
    if number % 50 == 0:
        seen.append(state.sum().item())
