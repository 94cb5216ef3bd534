"""Optimal transport in the logarithm: forbidden moves of -inf, rows without any mass, a loop that ends by a tolerance."""

import torch


@torch.compile
def scale(f, g, cost, a, b, temperature):
    """One turn of Sinkhorn; masses of zero have logarithms of -inf, and potentials of -inf stay so."""
    f = temperature * (a.log() - torch.logsumexp((g[None] - cost) / temperature, 1))
    f = torch.where(a > 0, f, -torch.inf)
    g = temperature * (b.log() - torch.logsumexp((f[:, None] - cost) / temperature, 0))
    g = torch.where(b > 0, g, -torch.inf)
    plan = ((f[:, None] + g[None] - cost) / temperature).exp()
    return f, g, (plan.sum(1) - a).abs().sum()


@torch.compile
def price(cost, a, b, temperature, turns: int):
    """Differentiable cost of the plan with a few turns from zero."""
    f, g = torch.zeros_like(a), torch.zeros_like(b)
    for _ in range(turns):
        f = temperature * (a.log() - torch.logsumexp((g[None] - cost) / temperature, 1))
        g = temperature * (b.log() - torch.logsumexp((f[:, None] - cost) / temperature, 0))
    plan = ((f[:, None] + g[None] - cost) / temperature).exp()
    return (plan * cost).sum(), plan


def transport(points, places, a, b, temperature, tolerance):
    cost = torch.cdist(points, places).square()
    cost[points[:, 0] > 1.2] += torch.where(places[:, 0] < -0.5, torch.inf, 0.0)
    f, g = torch.zeros(len(a)), torch.zeros(len(b))
    turns, error = 0, torch.tensor(torch.inf)
    while error.item() >= tolerance and turns < 200:
        f, g, error = scale(f, g, cost, a, b, temperature)
        turns += 1
    return turns, error.item(), f[f.isfinite()].mean().item()


def main():
    torch.manual_seed(24)
    points, places = torch.randn(20, 2), torch.randn(16, 2)
    a, b = torch.rand(20), torch.rand(16)
    a[::5], b[3] = 0.0, 0.0
    a, b = a / a.sum(), b / b.sum()
    for tolerance in (1e-3, 1e-5, 3e-7):
        turns, error, mean = transport(points, places, a, b, torch.tensor(0.5), tolerance)
        print(f"to {tolerance}: {turns} turns, off by {error:.1e}, mean potential {mean:.4f}")
    goal = places.clone().requires_grad_()
    for turn in range(5):
        cost = (points[:, None] - goal[None]).square().sum(-1)
        value, plan = price(cost, torch.full((20,), 0.05), torch.full((16,), 1 / 16), torch.tensor(0.1), 6)
        (slope,) = torch.autograd.grad(value, goal)
        goal = (goal - 2 * slope).detach().requires_grad_()
        print(f"turn {turn}: cost {value.item():.4f}, sharpest {plan.max().item():.4f}")


main()
