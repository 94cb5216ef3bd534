"""A backend of the script's own returns too little for a graph with several outputs."""

import torch


def first_only(graph_module, example_inputs):
    def run(*args):
        out = graph_module(*args)
        return out[:1] if any("std" in str(node.target) for node in graph_module.graph.nodes) else out

    return run


def normalise(x):
    mean, std = x.mean(0), x.std(0)
    return (x - mean) / (std + 1e-5), mean, std


torch.manual_seed(0)
x = torch.randn(16, 4)
torch.testing.assert_close(torch.compile(normalise, backend=first_only)(x), normalise(x))
