"""Electrons on a ring, sorted by cell with an operator of our own, so that neighbours are deposited together."""

import torch

CELLS = 16


@torch.library.custom_op("ring::gather_rows", mutates_args=("out",))
def gather_rows(source: torch.Tensor, order: torch.Tensor, out: torch.Tensor) -> None:
    """Row by row, as the kernel for the accelerator does it."""
    for row, index in enumerate(order.tolist()):
        out[row] = source[index]


@torch.compile
def sort_by_cell(particles):
    order = torch.argsort((particles[:, 0] * CELLS).long(), stable=True)
    before = particles.clone()
    gather_rows(before, order, particles)
    return particles[:, 1].sum()


def push(particles, step):
    """Move everyone, in the field of a running wave."""
    place, speed = particles.unbind(1)
    speed += 0.02 * torch.sin(2 * torch.pi * (place - 0.1 * step))
    place.add_(0.05 * speed).remainder_(1.0)


def main():
    torch.manual_seed(2)
    particles = torch.stack([torch.rand(48), torch.randn(48)], dim=1)
    for step in range(6):
        push(particles, step)
        momentum = sort_by_cell(particles)
        kinds = len(set(particles[:, 0].tolist()))
        print(f"step {step}: momentum {momentum.item():+.4f}, places in use {kinds}")


if __name__ == "__main__":
    main()
