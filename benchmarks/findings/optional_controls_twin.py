"""The same with zeros for the controls that are not given: their keys are always the same."""

import torch
from torch import nn


class Denoiser(nn.Module):
    def __init__(self, width, kinds):
        super().__init__()
        self.controls = nn.ModuleDict({kind: nn.Linear(4, width) for kind in kinds})
        self.body = nn.Sequential(nn.Linear(width, 2 * width), nn.SiLU(), nn.Linear(2 * width, width))

    def forward(self, x, controls):
        for kind, signal in controls.items():
            x = x + self.controls[kind](signal) * signal.any()
        return x - 0.1 * self.body(x)


def requests(kinds):
    """Controls of requests: each user gives other ones."""
    for number in range(1, 2 ** len(kinds)):
        yield {kind: torch.randn(2, 4) * (number >> bit & 1) for bit, kind in enumerate(kinds)}


def main():
    torch.manual_seed(0)
    kinds = ("depth", "pose", "edges")
    denoise = torch.compile(Denoiser(16, kinds).eval(), backend="aot_eager")
    with torch.no_grad():
        for controls in requests(kinds):
            x = torch.randn(2, 16)
            for _ in range(3):
                x = denoise(x, controls)
            print(f"{'+'.join(kind for kind in kinds if controls[kind].any())}: {x.norm().item():.4f}")


main()
