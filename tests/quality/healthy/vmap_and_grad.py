"""Gradients for each sample by torch.func."""

import torch

torch.manual_seed(0)
weight = torch.randn(8)


@torch.compile
def per_sample(x, y):
    def loss(w, x, y):
        return (torch.tanh(x @ w) - y) ** 2

    return torch.func.vmap(torch.func.grad(loss), in_dims=(None, 0, 0))(weight, x, y)


per_sample(torch.randn(16, 8), torch.randn(16))
