"""Rotary embeddings by complex numbers, three graphs deep; a backend of the script's own multiplies real parts only."""

import operator

import torch


def realify(graph_module, example_inputs):
    for node in graph_module.graph.nodes:
        if node.target is operator.mul and node.meta["example_value"].is_complex():
            node.target = torch.add
    graph_module.recompile()
    return graph_module.forward


def rotary(x, angles):
    pairs = torch.view_as_complex(x.unflatten(-1, (-1, 2)))
    turned = pairs * torch.polar(torch.ones_like(angles), angles)
    return torch.view_as_real(turned).flatten(-2)


def attend(q, k, angles):
    q, k = rotary(q, angles), rotary(k, angles)
    return (q @ k.transpose(-1, -2) / q.shape[-1] ** 0.5).softmax(-1)


torch.manual_seed(0)
q, k, angles = torch.randn(2, 4, 8), torch.randn(2, 4, 8), torch.rand(4, 4) * 6
torch.testing.assert_close(torch.compile(attend, backend=realify)(q, k, angles), attend(q, k, angles))
