"""k-means on a lattice, whose points are often as near to one centre as to another: the first of the nearest wins."""

import torch


@torch.compile
def assign(points, centres):
    """Index of the nearest centre and the squared distance, by the expanded square."""
    squared = points.square().sum(1)[:, None] - 2 * points @ centres.T + centres.square().sum(1)
    nearest, label = squared.min(1)
    return label, nearest.clamp(min=0)


@torch.compile
def moved(points, label, centres):
    """Mean of the points of each centre; a centre without points stays."""
    sums = torch.zeros_like(centres).index_add(0, label, points)
    count = torch.zeros(len(centres)).index_add(0, label, torch.ones(len(points)))
    return torch.where(count[:, None] > 0, sums / count.clamp(min=1)[:, None], centres), count


def main():
    torch.manual_seed(2)
    side = torch.arange(12) / 10
    points = torch.cartesian_prod(side, side)
    points = torch.cat([points, points[::5]])
    centres = points[torch.randperm(len(points))[:6]].clone()
    for step in range(6):
        label, distance = assign(points, centres)
        centres, count = moved(points, label, centres)
        print(f"step {step}: {distance.sum().item():.4f}, sizes {sorted(count.int().tolist())}")
    order = centres.sum(1).argsort()
    print([[round(value, 3) for value in row] for row in centres[order].tolist()])


main()
