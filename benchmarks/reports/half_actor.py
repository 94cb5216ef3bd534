"""Rollout of a small Gaussian policy whose mean is kept in half precision to save memory."""

import torch
from torch import nn
from torch.distributions import Normal


class Actor(nn.Module):
    def __init__(self, observation, action):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(observation, 32), nn.Tanh(), nn.Linear(32, action))
        self.log_std = nn.Parameter(torch.full((action,), -0.5))

    def forward(self, state):
        mean = self.body(state).to(torch.float16)
        return Normal(mean, self.log_std.exp()).sample()


class Memory:
    def __init__(self):
        self.actions = []

    def add(self, action):
        self.actions.append(action)

    def size(self):
        return sum(a.numel() * a.element_size() for a in self.actions)


torch.manual_seed(0)
actor = Actor(6, 3)
act = torch.compile(actor)
memory = Memory()
state = torch.randn(64, 6)
for _ in range(8):
    action = act(state)
    memory.add(action)
    state = state + 0.01 * action.float().sum(1, keepdim=True)
print("actions kept", len(memory.actions), "as", memory.actions[0].dtype)
print("memory in bytes", memory.size())
