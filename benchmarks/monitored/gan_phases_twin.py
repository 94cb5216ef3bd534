"""A small GAN that takes turns between generator and critic, with an average of the generator and a checkpoint."""

import copy
import io

import torch
from torch import nn


class Phases:
    def __init__(self):
        self.generator, self.critic = "generator", "critic"
        self.active = self.critic
        self.turns = 0


class Gan(nn.Module):
    def __init__(self):
        super().__init__()
        self.generator = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
        self.critic = nn.Sequential(nn.Linear(2, 8), nn.ReLU(), nn.Linear(8, 1))
        self.phases = Phases()

    def forward(self, noise, real):
        phases = self.phases
        fake = self.generator(noise)
        if phases.active == phases.critic:
            phases.active = phases.generator
            return self.critic(fake.detach()).mean() - self.critic(real).mean()
        phases.active = phases.critic
        phases.turns += 1
        return -self.critic(fake).mean()


torch.manual_seed(0)
gan = Gan()
step = torch.compile(gan)
average = copy.deepcopy(gan.generator).requires_grad_(False)
optimizer = torch.optim.SGD(gan.parameters(), lr=0.05)
history, stored = [], io.BytesIO()
for number in range(6):
    loss = step(torch.randn(16, 4), torch.randn(16, 2) + 2)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    with torch.no_grad():
        for mean, now in zip(average.parameters(), gan.generator.parameters(), strict=True):
            mean.lerp_(now, 0.1)
    history.append(loss.item())
torch.save({"gan": gan.state_dict(), "turns": gan.phases.turns}, stored)
stored.seek(0)
again = torch.load(stored)
print("turns", again["turns"], "losses", [round(value, 4) for value in history])
print("average", round(sum(p.norm().item() for p in average.parameters()), 5))
