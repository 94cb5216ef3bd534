"""A graph that leaves the grad mode switched off behind it, as eager does."""

import torch


@torch.compile
def f(x, w):
    y = x * w
    torch.set_grad_enabled(False)
    return y, (x + w).mean()


x, w = torch.arange(4.0), torch.ones(4, requires_grad=True)
for _ in range(2):
    torch.set_grad_enabled(True)
    y, level = f(x, w)
    torch.set_grad_enabled(True)
    y.sum().backward()
print(w.grad, level)
