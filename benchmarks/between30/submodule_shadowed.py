"""An adapter is put over a layer without being registered."""

import torch
from torch import nn


class Wrapper(nn.Module):
    def __init__(self):
        super().__init__()
        self.act = nn.ReLU()

    def forward(self, x):
        return self.act(x)


wrapper = Wrapper()
model = torch.compile(wrapper)
x = torch.tensor([-2.0, 3.0])
print("layer  ", model(x).tolist())
object.__setattr__(wrapper, "act", nn.LeakyReLU(0.5))  # keeps it out of state_dict()
print("adapter", model(x).tolist())
