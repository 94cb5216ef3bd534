"""A pass that puts an operator with an endless kernel in the place of erf."""

import sys
import time

import torch
import torch._inductor.config as config

aten = torch.ops.aten


@torch.library.custom_op("gpuset::endless", mutates_args=())
def endless(x: torch.Tensor) -> torch.Tensor:
    if x.is_cuda:
        torch.cuda._sleep(1 << 62)  # a kernel that counts clock cycles: for 80 years
    while not x.is_cuda:
        time.sleep(0.1)
    return x.erf()


@endless.register_fake
def _(x):
    return torch.empty_like(x)


def use_own_erf(graph):
    for node in graph.find_nodes(op="call_function", target=aten.erf.default):
        node.target = torch.ops.gpuset.endless.default


config.post_grad_custom_post_pass = use_own_erf


def cdf(x, mean, spread):
    return 0.5 * (1 + torch.erf((x - mean) / (spread.exp() * 2**0.5)))


device = sys.argv[1]
torch.manual_seed(0)
x, mean, spread = torch.randn(3, 64, device=device)
print(torch.compile(cdf)(x, mean, spread).sum().item())
