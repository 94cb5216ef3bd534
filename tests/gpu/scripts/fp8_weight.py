"""A weight in FP8 with a scale a row; multiplied in FP8 where the card can (compute capability 8.9), else widened first."""

import sys

import torch

device = sys.argv[1]
torch.manual_seed(0)
dense = torch.randn(64, 128, device=device)
scale = dense.abs().amax(1, keepdim=True) / torch.finfo(torch.float8_e4m3fn).max
weight = (dense / scale).to(torch.float8_e4m3fn)
has_fp8 = device == "cuda" and torch.cuda.get_device_capability() >= (8, 9)


@torch.compile
def linear(x):
    if not has_fp8:
        return x @ (weight.to(torch.bfloat16) * scale.to(torch.bfloat16)).mT
    row = x.abs().amax(1, keepdim=True).float() / torch.finfo(torch.float8_e4m3fn).max
    narrow = (x / row).to(torch.float8_e4m3fn)
    return torch._scaled_mm(narrow, weight.mT, scale_a=row, scale_b=scale.mT, out_dtype=torch.bfloat16)


with torch.no_grad():
    for _ in range(2):
        print(linear(torch.randn(32, 128, device=device, dtype=torch.bfloat16)).float().sum().item())
