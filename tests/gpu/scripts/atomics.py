"""Sums by index, with atomic additions in an order that differs from run to run, in eager too: no fault of the compiler."""

import sys

import torch


@torch.compile
def pooled(nodes, target):
    sums = torch.zeros(8, nodes.shape[1], device=nodes.device).index_add(0, target, nodes)
    squares = torch.zeros_like(sums).scatter_add(0, target[:, None].expand_as(nodes), nodes * nodes)
    return sums, (squares + 1).log()


device = sys.argv[1]
torch.manual_seed(0)
target = torch.randint(0, 8, (20_000,), device=device)
for _ in range(4):
    sums, logs = pooled(torch.randn(20_000, 32, device=device) * 100, target)
print(sums.shape, logs.shape)
