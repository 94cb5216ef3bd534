"""Two compiled functions look at rows and columns of one image; their backend keeps results by where a view begins."""

import torch
from torch import nn

KNOWN = {}


def by_place(graph, inputs):
    """Results are known by the code, and storage, version and offset of an input."""

    def run(*args):
        (view,) = args
        key = graph.code, view.untyped_storage().data_ptr(), view._version, view.storage_offset()
        if key not in KNOWN:
            KNOWN[key] = view, graph(*args)
        return KNOWN[key][1]

    return run


@torch.compile(backend=by_place, dynamic=False)
def profile(line):
    return torch.softmax(line, 0) * line


@torch.compile(backend=by_place, dynamic=False)
def edges(line):
    return (line - line.roll(1, 0)).abs()


class Weigh(nn.Module):
    def __init__(self):
        super().__init__()
        self.share = nn.Parameter(torch.tensor(0.4))

    def forward(self, a, b):
        return self.share * a.sum() + (1 - self.share) * b.max()


def lines(image, index):
    return (image[index], image[:, index]) if index % 3 == 0 else (image[index],)


torch.manual_seed(0)
image, weigh, found = torch.rand(8, 8), Weigh(), []
with torch.no_grad():
    for index in (1, 2, 3, 4, 0):
        found += [weigh(profile(line), edges(line)).item() for line in lines(image, index)]
        image[index].mul_(0.9)
print([round(one, 4) for one in found])
