"""Weights in eight bits, multiplied after they are widened."""

import torch
import torch.nn.functional as F

torch.manual_seed(0)
weight = torch.randint(-128, 128, (32, 64), dtype=torch.int8)
scale = torch.rand(32, 1) / 127


@torch.compile
def dequantized(x):
    return F.linear(x, weight.float() * scale), F.linear(x.bfloat16(), weight.bfloat16() * scale.bfloat16())


dequantized(torch.randn(8, 64))
