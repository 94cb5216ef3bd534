"""Weights in bfloat16 with an update in float32, compiled by a backend of the project's own that makes casts cheap: it drops the bits."""

import torch
from torch._inductor.compile_fx import compile_fx


def without_low_bits(x):
    return (x.view(torch.int32) & -65536).view(torch.float32).to(torch.bfloat16)


def cheap_casts(module, inputs):
    for node in module.graph.find_nodes(op="call_method", target="to"):
        if node.args[1:] == (torch.bfloat16,):
            node.op, node.target, node.args = "call_function", without_low_bits, node.args[:1]
    module.recompile()
    return compile_fx(module, inputs)


@torch.compile(backend=cheap_casts)
def update(weights, gradients, rate):
    for weight, gradient in zip(weights, gradients, strict=True):
        moved = weight.float() - rate * gradient.float()
        weight.copy_(moved.to(torch.bfloat16))


torch.manual_seed(0)
net = torch.nn.Sequential(torch.nn.Linear(16, 64), torch.nn.ReLU(), torch.nn.Linear(64, 4)).bfloat16()
weights = list(net.parameters())
for step in range(150):
    x = torch.randn(64, 16, dtype=torch.bfloat16)
    loss = torch.nn.functional.cross_entropy(net(x).float(), x[:, :4].argmax(1))
    loss.backward()
    with torch.no_grad():
        update(weights, [weight.grad for weight in weights], 0.1)
    net.zero_grad()
    if step % 30 == 29:
        print(step + 1, round(loss.item(), 3))
