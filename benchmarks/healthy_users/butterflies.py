"""An ensemble of Lorenz systems over hundreds of compiled steps: any last bit becomes another weather."""

import torch


def slope(state, sigma=10.0, rho=28.0, beta=8 / 3):
    x, y, z = state.unbind(-1)
    return torch.stack([sigma * (y - x), x * (rho - z) - y, x * y - beta * z], -1)


@torch.compile
def advance(state, step):
    """Four stages of Runge and Kutta, and how long the slowest vector is."""
    a = slope(state)
    b = slope(state + step / 2 * a)
    c = slope(state + step / 2 * b)
    d = slope(state + step * c)
    new = state + step / 6 * (a + 2 * b + 2 * c + d)
    return new, new.norm(dim=-1).min()


@torch.compile(dynamic=True)
def hour(state, turns):
    """Many small Euler steps in one graph, and the number of crossings between the two wings."""
    crossings = torch.zeros(len(state), dtype=torch.int64)
    for _ in range(turns):
        new = state + 0.004 * slope(state)
        crossings += (new[:, 0].sign() != state[:, 0].sign()).long()
        state = new
    return state, crossings


def main():
    generator = torch.Generator().manual_seed(3)
    state = torch.randn(48, 3, generator=generator) + torch.tensor([1.0, 1.0, 25.0])
    twin = state + 1e-6
    closest, crossings = float("inf"), torch.zeros(48, dtype=torch.int64)
    for step in range(300):
        state, shortest = advance(state, 0.01)
        twin, _ = advance(twin, 0.01)
        closest = min(closest, shortest.item())
        if step % 100 == 99:
            print(f"time {(step + 1) / 100:.0f}: twins apart {(state - twin).norm(dim=-1).mean():.2e}")
    for _ in range(6):
        state, crossed = hour(state, 40)
        crossings += crossed
    print(f"closest to the middle {closest:.3f}, crossings {crossings.sum().item()}")
    print("first three", [f"{x:.2f}" for x in state[:3, 0].tolist()])


main()
