"""Actions are drawn around a policy's means; a spread that training has driven below zero is refused and reset."""

import torch
from torch import nn


class Policy(nn.Module):
    def __init__(self, width, actions):
        super().__init__()
        self.mean = nn.Linear(width, actions)
        self.spread = nn.Parameter(torch.full((actions,), 0.3))

    def forward(self, x):
        mean = torch.tanh(self.mean(x))
        return torch.normal(mean, self.spread.expand_as(mean))


def main():
    torch.manual_seed(8)
    policy = Policy(width=4, actions=2)
    act = torch.compile(policy)
    resets = 0
    for episode in range(5):
        x = torch.randn(6, 4)
        with torch.no_grad():
            try:
                actions = act(x)
            except RuntimeError:
                policy.spread.fill_(0.1)
                resets += 1
                continue
            policy.spread.sub_(0.12)
        print(f"episode {episode}: {tuple(actions.shape)}, spread {policy.spread[0].item():.2f}")
    print(f"{resets} resets, spread {policy.spread[0].item():.2f} at the end")


if __name__ == "__main__":
    main()
