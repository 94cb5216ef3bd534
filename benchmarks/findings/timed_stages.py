"""A pipeline of stages that measures each of them by the clock while it runs."""

import time

import torch
from torch import nn


class Pipeline(nn.Module):
    def __init__(self, width, stages):
        super().__init__()
        self.stages = nn.ModuleList(nn.Sequential(nn.Linear(width, width), nn.SiLU()) for _ in range(stages))
        self.head = nn.Linear(width, 1)
        self.seconds = 0.0

    def forward(self, x):
        begin = time.perf_counter()
        for stage in self.stages:
            x = x + stage(x)
        self.seconds = time.perf_counter() - begin
        return self.head(x)


def main():
    torch.manual_seed(0)
    pipeline = Pipeline(16, 3).eval()
    run = torch.compile(pipeline, backend="aot_eager")
    slowest = 0.0
    with torch.no_grad():
        for step in range(6):
            y = run(torch.randn(8, 16))
            slowest = max(slowest, pipeline.seconds)
            print(f"{step}: {y.sum().item():.4f}")
    print("measured" if slowest > 0 else "not measured")


main()
