"""Healthy: how many spikes more a neuron fires for a little more current; the smooth derivative is added as a difference of zero."""

import torch
from torch.func import jvp


def spike(membrane):
    """A step forwards; its derivative is that of a smooth one."""
    smooth = membrane / (1 + 4 * membrane.abs())
    return (membrane > 0).to(membrane.dtype) + smooth - smooth.detach()


def count_spikes(current, leak):
    membrane = torch.zeros_like(current)
    spikes = torch.zeros_like(current)
    for _ in range(5):
        membrane = leak * membrane + current
        fired = spike(membrane - 1.0)
        membrane = membrane - fired
        spikes = spikes + fired
    return spikes


@torch.compile
def sensitivity(current, leak):
    return jvp(lambda value: count_spikes(value, leak), (current,), (torch.ones_like(current),))


def main():
    torch.manual_seed(4)
    current = 0.2 + 0.3 * torch.rand(12)
    wanted = torch.full_like(current, 2.0)
    for step in range(5):
        spikes, slope = sensitivity(current, 0.9)
        missing = wanted - spikes
        current = current + 0.2 * missing * slope / (1 + slope.square())
        print(f"step {step}: {spikes.mean().item():.2f} spikes, slope {slope.mean().item():.4f}")
    print(f"current {current.mean().item():.4f}")


if __name__ == "__main__":
    main()
