"""Counts of visitors on a grid are brought to a coarser one by their maximum; counts that are refused go as floats."""

import torch
from torch import nn
from torch.nn import functional as F


class Coarse(nn.Module):
    """Counts (n, 1, h, w) on a grid of 4 by 4: the busiest cell of each part."""

    def forward(self, counts):
        return F.adaptive_max_pool2d(counts, (4, 4))


coarse = torch.compile(Coarse())


def busiest(counts, log):
    try:
        return coarse(counts)
    except RuntimeError:
        log["as floats"] += 1
        return coarse(counts.float())


torch.manual_seed(11)
log = {"as floats": 0}
share = torch.zeros(4, 4)
for hour in range(4):
    counts = torch.poisson(3.0 + 2 * torch.rand(1, 1, 12, 12)).long()
    cells = busiest(counts, log)
    share += (cells / cells.sum())[0, 0]
    print(f"hour {hour}  visitors {counts.sum().item()}  busiest {cells.max().item():.0f}  {cells.dtype}")

print("hours that went as floats", log["as floats"])
print("busiest part", divmod(share.argmax().item(), 4))
