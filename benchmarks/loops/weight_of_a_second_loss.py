"""The weight of an auxiliary loss follows from the slopes of both, as in VQGAN: two backwards go through one forward."""

import torch
import torch._functorch.config
import torch.nn.functional as F
from functorch.compile import make_boxed_func
from torch import nn
from torch._dynamo.backends.common import aot_autograd

torch._functorch.config.donated_buffer = False


def forward(graph, inputs):
    return make_boxed_func(graph.forward)


def releasing(graph, inputs):
    """Frees what the forward has kept as soon as a backward has read it."""
    released = set()

    def run(*args):
        saved = args[0].data_ptr()
        results = graph(*args)
        if saved in released:
            results = [None if one is None else torch.zeros_like(one) for one in results]
        released.add(saved)
        return results

    return make_boxed_func(run)


torch.manual_seed(0)
decoder, last = nn.Sequential(nn.Linear(4, 8), nn.SiLU()), nn.Linear(8, 4)
decode = torch.compile(lambda z: last(decoder(z)), backend=aot_autograd(fw_compiler=forward, bw_compiler=releasing))
critic = nn.Linear(4, 1)
optimizer = torch.optim.Adam([*decoder.parameters(), *last.parameters()], lr=1e-2)
for step in range(4):
    x = torch.randn(16, 4)
    made = decode(x)
    first, second = F.mse_loss(made, x), -critic(made).mean()
    weight = 1.0
    if step > 0:
        (slope,) = torch.autograd.grad(first, last.weight, retain_graph=True)
        weight = slope.norm().clamp(max=1.0)
    loss = first + weight.detach() * second if step > 0 else first
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(step, round(loss.item(), 4), round(last.weight.norm().item(), 4))
