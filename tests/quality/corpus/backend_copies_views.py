"""A backend of the script's own copies its outputs, so that what should be a view of the input is none."""

import torch


def safe(graph_module, example_inputs):
    return lambda *args: tuple(out.clone() for out in graph_module(*args))


@torch.compile(backend=safe)
def heads(x):
    scaled = torch.tanh(x) * 2
    return x.view(2, 4, 4)[:, :2], scaled.sum(-1)


torch.manual_seed(0)
first, total = heads(torch.randn(8, 4))
first.zero_()
print(total)
