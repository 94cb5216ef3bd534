"""A backend built on AOTAutograd compiles forward graphs well and swaps two operands in backward ones."""

import torch
from functorch.compile import make_boxed_func
from torch import nn
from torch._dynamo.backends.common import aot_autograd

aten = torch.ops.aten


def forward_compiler(graph_module, example_inputs):
    return make_boxed_func(graph_module.forward)


def backward_compiler(graph_module, example_inputs):
    for node in graph_module.graph.find_nodes(op="call_function", target=aten.sigmoid_backward.default):
        node.args = node.args[::-1]
    graph_module.recompile()
    return make_boxed_func(graph_module.forward)


backend = aot_autograd(fw_compiler=forward_compiler, bw_compiler=backward_compiler)

torch.manual_seed(0)
gate, value = nn.Linear(6, 4), nn.Linear(6, 4)


def loss(x):
    return (torch.sigmoid(gate(x)) * torch.cos(value(x))).sum()


x = torch.randn(8, 6)
want = torch.autograd.grad(loss(x), gate.weight)
got = torch.autograd.grad(torch.compile(loss, backend=backend)(x), gate.weight)
torch.testing.assert_close(got, want)
