"""Features of sensors of which some never move: a one-pass variance below zero by rounding, whose root is NaN now and then."""

import torch
from torch import nn


def spread(x):
    """The standard deviation of each window in one pass; a constant window may round below zero."""
    return (x.square().mean(-1) - x.mean(-1).square()).sqrt()


def turns(headings):
    """Angles between consecutive headings, which are equal where a vehicle stands."""
    unit = headings / headings.norm(dim=-1, keepdim=True)
    return torch.acos((unit[:, 1:] * unit[:, :-1]).sum(-1))


class Watcher(nn.Module):
    def __init__(self, sensors):
        super().__init__()
        self.score = nn.Sequential(nn.Linear(2 * sensors + 1, 24), nn.ReLU(), nn.Linear(24, 1))

    def forward(self, windows, headings):
        deviation, turned = spread(windows), turns(headings)
        still = deviation.isnan() | (deviation == 0)
        features = torch.cat(
            [deviation.nan_to_num(0.0), windows.mean(-1), turned.nanmean(-1, keepdim=True).nan_to_num(0.0)], -1
        )
        return self.score(features)[:, 0], deviation, turned, still.sum()


def readings(batch, sensors):
    windows = 20 + torch.randn(batch, sensors, 64)
    windows[:, ::3] = 20 + torch.rand(batch, sensors, 1)[:, ::3]
    headings = torch.randn(batch, 12, 3)
    headings[batch // 2 :] = headings[batch // 2 :, :1]
    return windows, headings


def main():
    torch.manual_seed(5)
    model = Watcher(sensors=9)
    watch = torch.compile(model)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    for step in range(12):
        windows, headings = readings(16, 9)
        label = (torch.arange(16) < 8).float()
        score, deviation, turned, still = watch(windows, headings)
        loss = nn.functional.binary_cross_entropy_with_logits(score, label)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 4 == 3:
            silent, lost = int(still), int(turned.isnan().sum())
            print(
                f"step {step}: loss {loss.item():.4f}, still {silent}, without an angle {lost}, widest {deviation.nan_to_num().max():.3f}"
            )


main()
