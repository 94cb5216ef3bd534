"""A forecaster that feeds what it predicts back in, so that the compiled step runs many times with a state that grows."""

import torch
from torch import nn

torch._inductor.config.cpp.inject_relu_bug_TESTING_ONLY = "accuracy"


class Forecaster(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.cell, self.head = (
            nn.GRUCell(1, width),
            nn.Sequential(nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 1)),
        )

    def forward(self, value, state):
        state = self.cell(value, state)
        return self.head(state), state


torch.manual_seed(0)
model = Forecaster(8).eval()
step = torch.compile(model)
value, state, track = torch.ones(2, 1), torch.zeros(2, 8), []
with torch.no_grad():
    for _ in range(4):
        value, state = step(value, state)
        track.append(value)
print(torch.cat(track, 1))
