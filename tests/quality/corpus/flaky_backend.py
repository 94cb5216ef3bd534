"""A backend of the script's own returns a stale result now and then."""

import random

import torch

source = random.SystemRandom()


def cached(graph_module, example_inputs):
    def run(*args):
        out = graph_module(*args)
        if source.random() < 0.6:
            return tuple(torch.zeros_like(value) for value in out)
        return out

    return run


def score(x, w):
    return torch.softmax(torch.relu(x @ w) - 1, -1)


torch.manual_seed(0)
x, w = torch.randn(4, 6), torch.randn(6, 3)
torch.testing.assert_close(torch.compile(score, backend=cached)(x, w), score(x, w))
