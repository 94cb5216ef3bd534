"""The script teaches Dynamo a Python function by a substitute that is not the same."""

import bisect

import torch


@torch.compiler.substitute_in_graph(bisect.bisect_left)
def bisect_left(a, x, lo=0, hi=None, *, key=None):
    position = lo
    while position < len(a) and a[position] <= x:
        position += 1
    return position


LEVELS = [0, 2, 4, 8]


def pyramid(x, scale):
    level = bisect.bisect_left(LEVELS, scale)
    return torch.nn.functional.avg_pool1d(x, level + 1) * level


torch.manual_seed(0)
x = torch.randn(1, 2, 24)
torch.testing.assert_close(torch.compile(pyramid)(x, 4), pyramid(x, 4))
