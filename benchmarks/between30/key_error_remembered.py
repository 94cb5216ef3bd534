"""Lazy calibration: a missing scale falls back to one."""

import torch
from torch import nn

scales = {}


class Quantizer(nn.Module):
    def forward(self, x):
        try:
            scale = scales["activation"]
        except KeyError:
            scale = 1.0
        return (x / scale).round()


quantize = torch.compile(Quantizer())
x = torch.tensor([1.0, 2.0, 5.0])
print("uncalibrated", quantize(x).tolist())
scales["activation"] = 0.5
print("calibrated  ", quantize(x).tolist())
