"""Readings in bfloat16 are sorted into intervals that are open at their upper end: edges are moved down by one step."""

import torch


def closed_ends(edges):
    """Intervals [edge, next edge) as pairs of closed ends: (n + 1,) to two of (n,), in the dtype of the edges."""
    lower = edges[:-1]
    return lower, torch.nextafter(edges[1:], lower)


closed_ends = torch.compile(closed_ends)


def main():
    torch.manual_seed(8)
    lower, upper = closed_ends(torch.arange(0, 17, dtype=torch.bfloat16) / 2)
    totals = torch.zeros(16, dtype=torch.int64)
    twice = 0
    for hour in range(4):
        # the thermometer has steps of a quarter of a degree
        readings = (torch.randint(0, 32, (60,)) / 4).to(torch.bfloat16)
        inside = (readings[:, None] >= lower) & (readings[:, None] <= upper)
        totals += inside.sum(dim=0)
        twice += (inside.sum(dim=1) > 1).sum().item()
        print(f"hour {hour}: {inside.sum().item()} counted of {len(readings)} readings")
    print("fullest interval", totals.argmax().item(), "with", totals.max().item())
    print("counted twice", twice)
    print("widths of the first intervals", (upper - lower)[:4].tolist())


if __name__ == "__main__":
    main()
