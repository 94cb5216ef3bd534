"""Two graphs end in integers of rounded values: the first differs legally, the second has a wrong floor."""

import torch
from torch._inductor.lowering import lowerings

aten = torch.ops.aten
sigmoid, floor = lowerings[aten.sigmoid.default], lowerings[aten.floor.default]
lowerings[aten.sigmoid.default] = lambda x: lowerings[aten.add.Tensor](sigmoid(x), 3e-7)
lowerings[aten.floor.default] = lambda x: lowerings[aten.add.Tensor](floor(x), 1)


@torch.compile
def levels(x):
    return torch.round(torch.sigmoid(x) * 1000)


@torch.compile
def buckets(x):
    return torch.floor(x * 0.37)


with torch.no_grad():
    x = torch.linspace(-1, 1, 10000)
    print(levels(x).sum(), buckets(x * 50).sum())
