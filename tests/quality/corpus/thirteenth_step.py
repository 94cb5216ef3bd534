"""A loop whose thirteenth step comes to a value that torch 2.13.0 gets wrong; graph and guards are those of all others."""

import torch


@torch.compile
def step(state, clock):
    tick = torch.floor_divide(clock, 0.1)
    return state * 0.9 + torch.sin(tick)


state = torch.zeros(4)
for number in range(20):
    clock = torch.full((4,), 0.5 if number == 12 else 0.25)
    state = step(state, clock)
print(state)
