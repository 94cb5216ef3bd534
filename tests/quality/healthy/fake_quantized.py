"""Quantization as it is trained: rounded to integers and back."""

import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(0)
linear = nn.Linear(32, 16)


@torch.compile
def quantized(x):
    scale = x.detach().abs().amax() / 127
    x = torch.fake_quantize_per_tensor_affine(x, scale, torch.zeros((), dtype=torch.int32), -128, 127)
    weight = torch.fake_quantize_per_channel_affine(
        linear.weight, torch.full((16,), 0.01), torch.zeros(16, dtype=torch.int32), 0, -128, 127
    )
    return F.linear(x, weight, linear.bias)


quantized(torch.randn(8, 32))
