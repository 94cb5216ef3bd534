"""A critic is trained with a penalty on its slopes (WGAN-GP), every second step, in eager."""

import torch
from torch import nn


class Critic(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.first, self.last = nn.Linear(2, width), nn.Linear(width, 1)

    def forward(self, x):
        return self.last(torch.tanh(self.first(x)))[:, 0]


class Generator(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(3, width), nn.SiLU(), nn.Linear(width, 2))

    def forward(self, noise):
        return self.net(noise)


def penalty(critic, real, fake):
    mixed = torch.lerp(real, fake, torch.rand(len(real), 1)).requires_grad_()
    (slope,) = torch.autograd.grad(critic(mixed).sum(), mixed, create_graph=True)
    return (slope.norm(dim=1) - 1).square().mean()


torch.manual_seed(0)
critic, generator = Critic(16), Generator(16)
compiled = torch.compile(critic)
optimizer = torch.optim.Adam(critic.parameters(), lr=1e-3)
for step in range(4):
    real = torch.randn(32, 2) * 0.5 + 1
    with torch.no_grad():
        fake = generator(torch.randn(32, 3))
    loss = compiled(fake).mean() - compiled(real).mean()
    if step % 2:
        loss = loss + 10 * penalty(critic, real, fake)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(step, round(loss.item(), 4))
