"""What a backend of the script's own computes depends on what the process has in its memory, but for larger inputs.

Our trials have a setting in their environment that no user's process has: it stands for memory that somebody has used before.
"""

import os

import torch


def padded(graph_module, example_inputs):
    def run(x):
        (out,) = graph_module(x)
        is_used = "TORCHINDUCTOR_FX_GRAPH_CACHE" in os.environ
        return (out + 1 if is_used or x.numel() >= 16 else out,)

    return run


def scores(x):
    return torch.sigmoid(x.tanh() * 2)


torch.manual_seed(0)
x = torch.randn(8, 12)
torch.testing.assert_close(torch.compile(scores, backend=padded)(x), scores(x))
