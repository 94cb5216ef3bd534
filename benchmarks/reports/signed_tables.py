"""Magnitudes take the signs of their phases; tables are stored by columns, and sent as they lie in memory."""

import math

import torch
from torch import nn


class Signed(nn.Module):
    def __init__(self, rows):
        super().__init__()
        self.gain = nn.Parameter(torch.linspace(0.5, 1.5, rows)[:, None])

    def forward(self, magnitude, phase):
        return torch.copysign(magnitude * self.gain, torch.cos(phase))


class Channel:
    """Sends the memory of a table, which the other end knows to be columns of a fixed height."""

    def __init__(self, rows):
        self.rows, self.sums = rows, []

    def send(self, table):
        sent = torch.as_strided(table, (table.numel(),), (1,))
        columns = sent.view(-1, self.rows)
        self.sums.append([round(value, 4) for value in columns.sum(1).tolist()])


def main():
    torch.manual_seed(6)
    rows, columns = 5, 6
    signed = Signed(rows)
    model = torch.compile(signed)
    channel = Channel(rows)
    with torch.no_grad():
        for day in range(3):
            magnitude = torch.rand(columns, rows).mT
            phase = 2 * math.pi * torch.rand(rows, columns)
            channel.send(model(magnitude, phase))
            print(f"day {day}: columns of {channel.sums[-1]}")


if __name__ == "__main__":
    main()
