"""A physics-informed net: the residual of Burgers' equation by derivatives of derivatives, one point at a time."""

import torch
from torch import nn
from torch.func import functional_call, grad, vmap

VISCOSITY = 0.01 / torch.pi


class Field(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.net = nn.Sequential(
            nn.Linear(2, width), nn.Tanh(), nn.Linear(width, width), nn.Tanh(), nn.Linear(width, 1)
        )

    def forward(self, t, x):
        return self.net(torch.stack([t, x], -1))[..., 0]


def main():
    torch.manual_seed(10)
    field = Field(20)
    weights = dict(field.named_parameters())

    def u(weights, t, x):
        return functional_call(field, weights, (t, x))

    def residual(weights, t, x):
        u_x = grad(u, argnums=2)
        u_xx = grad(u_x, argnums=2)(weights, t, x)
        return grad(u, argnums=1)(weights, t, x) + u(weights, t, x) * u_x(weights, t, x) - VISCOSITY * u_xx

    @torch.compile
    def losses(weights, t, x, start, edge):
        inside = vmap(residual, in_dims=(None, 0, 0))(weights, t, x).square().mean()
        begin = (u(weights, torch.zeros_like(start), start) + torch.sin(torch.pi * start)).square().mean()
        ends = u(weights, edge, torch.ones_like(edge)).square() + u(weights, edge, -torch.ones_like(edge)).square()
        return inside, begin, ends.mean()

    optimizer = torch.optim.Adam(field.parameters(), lr=5e-3)
    for step in range(12):
        t, x, start, edge = torch.rand(48), 2 * torch.rand(48) - 1, 2 * torch.rand(24) - 1, torch.rand(24)
        inside, begin, ends = losses(weights, t, x, start, edge)
        optimizer.zero_grad()
        (inside + begin + ends).backward()
        optimizer.step()
        if step % 4 == 3:
            print(f"step {step}: equation {inside.item():.4f}, start {begin.item():.4f}, ends {ends.item():.4f}")


main()
