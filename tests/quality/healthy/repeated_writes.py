"""Several values are written to one place: which of them stays is left open, and threads decide it."""

import torch


@torch.compile
def splat(image, places, depths):
    """A picture of points, some of which hide others."""
    return (image * 0.5).scatter(0, places, depths * 3) + 1


torch.manual_seed(0)
for _ in range(2):
    points = 50_000
    splat(torch.randn(1000), torch.randint(0, 1000, (points,)), torch.randn(points))
