"""A Triton kernel of the script's own inside a compiled function, beside a relu that is generated wrong."""

import sys

import torch
import torch._inductor.config as config
import triton
import triton.language as tl

config.triton.inject_relu_bug_TESTING_ONLY = "accuracy"


@triton.jit
def scale_kernel(source, target, factor, count, BLOCK: tl.constexpr):
    places = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(target + places, tl.load(source + places, mask=places < count) * factor, mask=places < count)


def scaled(x, factor):
    result = torch.empty_like(x)
    scale_kernel[(triton.cdiv(x.numel(), 256),)](x, result, factor, x.numel(), BLOCK=256)
    return result


@torch.compile(fullgraph=True)
def gated(x, gate):
    return torch.relu(scaled(x.sin(), 2.0) - 1) * gate.sigmoid()


device = sys.argv[1]
torch.manual_seed(0)
print(gated(torch.randn(1000, device=device), torch.randn(1000, device=device)).sum().item())
