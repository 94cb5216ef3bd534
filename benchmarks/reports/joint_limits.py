"""Actions of robots are kept within limits; a limit that float32 cannot hold is reported, and the axis is left free."""

import torch
from torch import nn


class Policy(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.body = nn.Linear(width, 2)

    def forward(self, state, low, high):
        return torch.clamp(self.body(state) * 3.0, low, high)


torch.manual_seed(0)
policy = Policy(5)
act = torch.compile(policy, dynamic=False)
robots = {"arm": (-1.0, 1.0), "crane": (-1e60, 2.0), "cart": (-0.5, 0.5)}
badly_set = []
for name, (low, high) in robots.items():
    state = torch.randn(4, 5)
    with torch.no_grad():
        try:
            action = act(state, low, high)
        except RuntimeError:
            badly_set.append(name)
            action = policy.body(state)
    print(name, [round(value, 3) for value in action.mean(0).tolist()])
print("limits to be looked at:", badly_set or "none")
