"""Hamiltonian Monte Carlo: torch.func gradients, a Metropolis test against a drawn number, an own generator, float64."""

import math

import torch
from torch.func import grad_and_value, vmap


def energy(q, height):
    """A crescent and a funnel: most of the time flat, sometimes steep."""
    x, y = q
    return (x - 1).square() + height * (y - x.square()).square() + 0.5 * torch.log1p(x.square() + y.square())


@torch.compile
def leap(q, p, height, step, turns: int):
    both = vmap(grad_and_value(energy), in_dims=(0, None))
    force, before = both(q, height)
    start = before + p.square().sum(-1) / 2
    for _ in range(turns):
        p = p - step / 2 * force
        q = q + step * p
        force, after = both(q, height)
        p = p - step / 2 * force
    return q, start - after - p.square().sum(-1) / 2


def sample(chains, draws, dtype):
    generator = torch.Generator().manual_seed(11)
    height, step = torch.tensor(8.0, dtype=dtype), torch.tensor(0.2, dtype=dtype)
    q = torch.randn(chains, 2, dtype=dtype, generator=generator)
    kept, rates = [], []
    for draw in range(draws):
        p = torch.randn(chains, 2, dtype=dtype, generator=generator)
        proposed, gain = leap(q, p, height, step, 8)
        chance = torch.rand(chains, dtype=dtype, generator=generator)
        accepted = chance.log() < gain
        q = torch.where(accepted[:, None], proposed, q)
        rates.append(accepted.double().mean().item())
        step = step * math.exp((rates[-1] - 0.8) / (draw + 1) ** 0.6)
        kept.append(q)
    return torch.stack(kept[draws // 2 :]), sum(rates) / len(rates), step


def main():
    for dtype in (torch.float32, torch.float64):
        draws, rate, step = sample(chains=40, draws=60, dtype=dtype)
        mean, deviation = draws.mean((0, 1)), draws.flatten(0, 1).std(0)
        print(f"{dtype}: accepted {rate:.3f}, step {step:.4f}, mean {mean.tolist()}, deviation {deviation.tolist()}")


main()
