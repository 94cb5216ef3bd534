"""Sums of a million amounts in float32, and the variance of numbers whose mean is large, in one pass."""

import time

import torch


@torch.compile
def summed(amounts, fees):
    """Total, net total after fees that nearly cancel, mean and spread."""
    net = amounts * (1 - fees) - amounts + amounts * fees
    mean = amounts.mean()
    spread = (amounts.square().mean() - mean.square()).clamp(min=0).sqrt()
    return amounts.sum(), net.sum(), mean, spread


@torch.compile
def balances(amounts):
    """Running balances of accounts, and the place of the highest of each."""
    running = amounts.cumsum(-1)
    return running[:, -1], running.argmax(-1), running.max(-1).values - running.min(-1).values


def main():
    torch.manual_seed(30)
    started = time.time()
    for month in range(3):
        amounts = 1000 + 5 * torch.randn(1_000_000)
        fees = 0.01 + 0.001 * torch.rand(1_000_000)
        total, net, mean, spread = summed(amounts, fees)
        last, peak, swing = balances((amounts - 1000).view(500, 2000))
        print(f"month {month}: total {total.item():.6e}, mean {mean.item():.2f}, spread about {spread.item():.0f}")
        print(f"  after fees and back {abs(net.item()) / total.item():.0e} of it")
        print(
            f"  accounts {last.mean().item():.2f}, peaks at {peak.float().mean().item():.0f}, swing {swing.mean().item():.1f}"
        )
    print(f"finished at {time.strftime('%H:%M')}, {3_000_000 / (time.time() - started):,.0f} amounts a second")


main()
