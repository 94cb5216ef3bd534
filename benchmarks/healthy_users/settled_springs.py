"""Control flow inside the graph: a while_loop that relaxes springs, a cond by their energy, an associative scan."""

import torch
from torch import nn
from torch._higher_order_ops.associative_scan import associative_scan
from torch._higher_order_ops.while_loop import while_loop


def energy(x):
    return (x.diff(dim=-1) - 1).square().sum()


def relaxed(x, tolerance, most):
    """Positions after as many sweeps as it takes to change by less than ``tolerance``, and the number of sweeps."""

    def goes_on(count, change, x):
        return (count < most) & (change > tolerance)

    def sweep(count, change, x):
        middle = 0.5 * (x[:, :-2] + x[:, 2:])
        new = torch.cat([x[:, :1], middle, x[:, -1:]], 1)
        return count + 1, (new - x).abs().amax(), new

    return while_loop(goes_on, sweep, (torch.tensor(0), torch.tensor(1.0), x))


def decayed(steps, decay):
    """First-order recurrence ``y[t] = decay[t] * y[t-1] + steps[t]`` by a scan over pairs."""

    def join(left, right):
        return left[0] * right[0], left[1] * right[0] + right[1]

    return associative_scan(join, (decay, steps), dim=1, combine_mode="generic")[1]


class Chain(nn.Module):
    def forward(self, x):
        count, _, settled = relaxed(x, 1e-3, 200)
        shifted = torch.cond(
            energy(settled) > 1.0, lambda s: s - s.mean(1, keepdim=True), lambda s: s.clone(), (settled,)
        )
        speed = decayed(shifted.diff(dim=1), torch.full_like(shifted[:, 1:], 0.9))
        return shifted, speed, count


def main():
    torch.manual_seed(32)
    chain = torch.compile(Chain())
    with torch.no_grad():
        for load in range(4):
            x = torch.linspace(0, 7 + load, 8).repeat(3, 1) + 0.3 * torch.randn(3, 8)
            settled, speed, count = chain(x)
            print(
                f"load {load}: {count.item()} sweeps, energy {energy(settled).item():.4f}, speed {speed.norm().item():.4f}"
            )


main()
