"""A policy that learns by its own drawn actions: Categorical, normalised returns, an entropy bonus, clipped ratios, items in the loop."""

import torch
from torch import nn
from torch.distributions import Categorical


class Corridor:
    """Walkers on a line with a windy middle; the right end pays."""

    def __init__(self, walkers, length):
        self.length, self.place = length, torch.full((walkers,), length // 2)

    def seen(self):
        return torch.stack([self.place / self.length, (self.place == 0).float(), (self.place % 2).float()], -1)

    def step(self, action):
        wind = (torch.rand(len(action)) < 0.2).long()
        self.place = (self.place + 2 * action - 1 - wind).clamp(0, self.length)
        paid = (self.place == self.length).float() - 0.01
        self.place = torch.where(self.place == self.length, self.length // 2, self.place)
        return paid


class Policy(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(3, width), nn.Tanh())
        self.actor, self.critic = nn.Linear(width, 2), nn.Linear(width, 1)

    def forward(self, seen):
        x = self.body(seen)
        return self.actor(x), self.critic(x).squeeze(-1)

    @torch.compile
    def act(self, seen):
        logits, value = self(seen)
        choice = Categorical(logits=logits)
        action = choice.sample()
        return action, choice.log_prob(action), value


@torch.compile
def loss_of(policy, seen, action, old, returns, values):
    logits, value = policy(seen)
    choice = Categorical(logits=logits)
    gain = returns - values
    gain = (gain - gain.mean()) / (gain.std() + 1e-8)
    ratio = (choice.log_prob(action) - old).exp()
    surrogate = torch.minimum(ratio * gain, ratio.clamp(0.8, 1.2) * gain)
    clipped = ((ratio - 1).abs() > 0.2).float().mean()
    loss = (value - returns).square().mean() / 2 - surrogate.mean() - 0.01 * choice.entropy().mean()
    return loss, clipped


def main():
    torch.manual_seed(6)
    policy, walks = Policy(16), Corridor(walkers=16, length=8)
    optimizer = torch.optim.Adam(policy.parameters(), lr=1e-2)
    for turn in range(5):
        told = []
        with torch.no_grad():
            for _ in range(12):
                seen = walks.seen()
                action, log_prob, value = policy.act(seen)
                told.append((seen, action, log_prob, value, walks.step(action)))
        seen, action, old, values, paid = map(torch.stack, zip(*told, strict=True))
        returns = torch.zeros_like(paid)
        ahead = torch.zeros(16)
        for t in reversed(range(12)):
            returns[t] = ahead = paid[t] + 0.9 * ahead
        for _ in range(4):
            loss, clipped = loss_of(policy, seen, action, old, returns, values)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            if clipped.item() > 0.5:
                break
        print(f"turn {turn}: paid {paid.sum().item():.2f}, loss {loss.item():.3f}, clipped {clipped.item():.3f}")


main()
