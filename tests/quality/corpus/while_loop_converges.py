"""A fixed point inside of one graph: the body of the while_loop has a wrong log1p."""

import torch
import torch._inductor.config as inductor_config
from torch._higher_order_ops.while_loop import while_loop

inductor_config.cpp.inject_log1p_bug_TESTING_ONLY = "accuracy"


def not_done(step, x):
    return step < 3


def advance(step, x):
    return step + 1, torch.log1p(x.abs()) * 0.5 + x * 0.25


@torch.compile
def fixed_point(x):
    _, x = while_loop(not_done, advance, (torch.zeros((), dtype=torch.int64), x))
    return x.mean(-1)


torch.manual_seed(0)
with torch.no_grad():
    print(fixed_point(torch.randn(4, 8)))
