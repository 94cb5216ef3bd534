"""Two forecasts of a river's level are merged, once for floods, once for droughts, and once for the middle."""

import torch
from torch import nn


class Forecast(nn.Module):
    def __init__(self, days):
        super().__init__()
        self.layer = nn.Linear(days, days)

    def forward(self, levels):
        return levels[-1] + 0.3 * torch.tanh(self.layer(levels))


def merger(combine, offset):
    def merged(one, other):
        return combine(one, other) + offset

    return torch.compile(merged)


def main():
    torch.manual_seed(3)
    days = 7
    upper, lower = Forecast(days), Forecast(days)
    views = {
        "flood": merger(torch.Tensor.maximum, 0.0),
        "drought": merger(torch.Tensor.minimum, 0.0),
        "both": merger(torch.Tensor.add, 0.0),
    }
    levels = 2.0 + 0.2 * torch.rand(days)
    with torch.no_grad():
        for week in range(2):
            one, other = upper(levels), lower(levels)
            row = {name: merge(one, other) for name, merge in views.items()}
            shown = ", ".join(f"{name} {level.mean().item():.3f}" for name, level in row.items())
            print(f"week {week}: {shown}")
            alarm = (row["flood"] - row["drought"]).max().item()
            print(f"  widest gap between them {alarm:.3f} m")
            levels = row["both"] / 2


if __name__ == "__main__":
    main()
