"""Quantities that know their unit, as a tensor subclass in compiled code; helpers that stay out of it, stances, and a hook that asks."""

import torch
from torch import nn


class Quantity(torch.Tensor):
    """A tensor with a unit, which sums keep and products join."""

    @staticmethod
    def of(values, unit):
        marked = values.as_subclass(Quantity)
        marked.unit = unit
        return marked

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        result = super().__torch_function__(func, types, args, kwargs or {})
        units = [arg.unit for arg in args if isinstance(arg, Quantity) and hasattr(arg, "unit")]
        if isinstance(result, Quantity) and units:
            result.unit = "·".join(units) if func is torch.Tensor.mul and len(units) > 1 else units[0]
        return result


log = []


@torch.compiler.disable
def note(name, value):
    log.append((name, round(float(value), 3)))


class Scale(nn.Module):
    def __init__(self):
        super().__init__()
        self.slope, self.offset = nn.Parameter(torch.tensor([1.5])), nn.Parameter(torch.zeros(1))
        self.weighed = 0

    def forward(self, length):
        self.weighed += len(length)
        mass = length * length * self.slope + self.offset
        if not torch.compiler.is_compiling():
            mass = mass + 0.0
        note("mean", mass.detach().mean())
        return mass.clamp(min=0)


@torch.compile
def area(one, other):
    return (one * other).sum(), one + other.flip(0)


def main():
    torch.manual_seed(52)
    scale = Scale()
    weigh = torch.compile(scale)
    optimizer = torch.optim.ASGD(scale.parameters(), lr=0.02)
    update = torch.compile(optimizer.step)
    for _ in range(8):
        length = torch.rand(16)
        mass = weigh(length)
        loss = (mass - (2 * length.square() + 0.3)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        update()
    with torch.compiler.set_stance("force_eager"):
        check = weigh(torch.linspace(0, 1, 5))
    print("weighed", scale.weighed, "logged", len(log), "last", log[-1], "check", [f"{x:.3f}" for x in check.tolist()])
    one, other = Quantity.of(torch.rand(6), "m"), Quantity.of(torch.rand(6), "m")
    total, border = area(one, other)
    print(f"total {float(total):.4f}, of type {type(border).__name__}, last {float(border[-1]):.4f}")


main()
