"""Headings of vehicles from positions that are snapped to a grid: who stands still has the heading 0."""

import torch
from torch import nn


class Headings(nn.Module):
    def __init__(self, cell):
        super().__init__()
        self.cell = cell

    def forward(self, track):
        move = track[1:] - track[:-1]
        cells = torch.ceil(move / self.cell)
        # Adding zero makes a plain zero of a negative one, which atan2 would take for a turn by 180 degrees.
        cells = cells + 0.0
        return torch.atan2(cells[..., 1], cells[..., 0])


def turns(headings):
    """How often a vehicle changes its heading by more than a quarter."""
    return ((headings[1:] - headings[:-1]).abs() > torch.pi / 2).sum(0)


torch.manual_seed(0)
headings = torch.compile(Headings(cell=1.0))
for day in range(3):
    start = torch.zeros(1, 4, 2)
    moves = torch.randn(12, 4, 2).clamp(-0.9, 3.0)
    moves[:, :, 1] = -0.3
    track = torch.cat([start, moves.cumsum(0)])
    angles = headings(track)
    print(f"day {day} mean heading {angles.mean().item():.4f} turns {turns(angles).tolist()}")
