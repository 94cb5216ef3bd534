"""When does each simulated price first leave its corridor? A barrier option is paid by that day."""

import torch


@torch.compile
def first_day(prices, low, high):
    """Index of the first day outside of the corridor, and whether there is one."""
    outside = (prices < low) | (prices > high)
    hit, day = outside.max(dim=1)
    return day, hit


def simulate(paths, days, volatility):
    steps = 1 + volatility * torch.randn(paths, days)
    return 100 * steps.cumprod(dim=1)


torch.manual_seed(11)
rate = 0.01
total = 0.0
for volatility in (0.01, 0.02, 0.03):
    prices = simulate(paths=64, days=40, volatility=volatility)
    day, hit = first_day(prices, 95.0, 105.0)
    rebate = torch.where(hit, torch.exp(-rate * day.float()), torch.zeros(()))
    total += rebate.mean().item()
    mean_day = day[hit].float().mean().item()
    print(
        f"volatility {volatility}: {hit.sum().item()} of 64 leave, on day {mean_day:.3f}, worth {rebate.mean().item():.4f}"
    )
print(f"all three {total:.4f}")
