"""A two-headed function whose backward wants to know which head was used."""

import torch


class TwoHeads(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.set_materialize_grads(False)
        return x.clone(), x * 2

    @staticmethod
    def backward(ctx, first, second):
        if second is None:
            return first
        return first + 2 * second + 10


@torch.compile
def loss(x):
    first, _ = TwoHeads.apply(x)
    return first.sum()


x = torch.ones(2, requires_grad=True)
for step in range(2):
    x.grad = None
    loss(x).backward()
    print("step", step, "grad", x.grad.tolist())
