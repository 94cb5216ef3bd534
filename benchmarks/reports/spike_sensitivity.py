"""How many spikes more a neuron fires for a little more current: a forward derivative, with a smooth one for the threshold."""

import torch
from torch.func import jvp


class Spike(torch.autograd.Function):
    """A step forwards; its derivative is that of a fast sigmoid."""

    @staticmethod
    def forward(membrane):
        return (membrane > 0).to(membrane.dtype)

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)
        ctx.save_for_forward(*inputs)

    @staticmethod
    def backward(ctx, grad):
        (membrane,) = ctx.saved_tensors
        return grad / (1 + 4 * membrane.abs()) ** 2

    @staticmethod
    def jvp(ctx, tangent):
        (membrane,) = ctx.saved_tensors
        return tangent / (1 + 4 * membrane.abs()) ** 2


def count_spikes(current, leak):
    membrane = torch.zeros_like(current)
    spikes = torch.zeros_like(current)
    for _ in range(5):
        membrane = leak * membrane + current
        fired = Spike.apply(membrane - 1.0)
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
