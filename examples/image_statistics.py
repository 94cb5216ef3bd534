"""Statistics of 8-bit images before they are normalised: where is the darkest pixel of each?

Real fault of torch 2.13 and 2.14 on CPU: argmin of uint8 answers 0 for every row of 16 values or more. All is whole numbers here,
so no tolerance and no float64 run can help to judge it.
"""

import torch
import torch.nn as nn


class Statistics(nn.Module):
    def forward(self, images):
        pixels = images.flatten(1)
        spread = (pixels.float().std(dim=1), pixels.float().mean(dim=1))
        return pixels.argmin(dim=1), *spread


torch.manual_seed(0)
statistics = Statistics()
images = torch.randint(1, 256, (4, 8, 8), dtype=torch.uint8)
darkest, *_ = torch.compile(statistics)(images)
expected, *_ = statistics(images)
assert torch.equal(darkest, expected), f"darkest pixel at {darkest.tolist()}, eager says {expected.tolist()}"
