"""Healthy: daily readings of stations are standardized; a station that sent nothing has no mean, and is left out of the map."""

import torch
from torch import nn


class Standardize(nn.Module):
    """Readings (n,) to values of mean zero and deviation one, with the mean and deviation they had."""

    def forward(self, readings):
        mean = readings.mean()
        deviation = readings.std(correction=0)
        return (readings - mean) / deviation, mean, deviation


torch.manual_seed(9)
standardize = torch.compile(Standardize())

stations = ["harbour", "airport", "ridge", "forest", "valley"]
sent = [24, 24, 0, 24, 24]
warmth = {"harbour": 14.0, "airport": 16.0, "ridge": 3.0, "forest": 11.0, "valley": 13.0}

known = {}
for name, number in zip(stations, sent, strict=True):
    readings = warmth[name] + 2 * torch.randn(number)
    values, mean, deviation = standardize(readings)
    if mean.isnan():
        print(f"{name:8} sent nothing")
        continue
    known[name] = mean.item()
    print(f"{name:8} mean {mean.item():.2f}  largest {values.abs().max().item() if number else 0:.2f}")

coldest = min(known, key=known.get)
print("stations on the map", len(known), "mean of the region", round(sum(known.values()) / len(known), 2))
print("coldest", coldest, round(known[coldest], 2))
