"""bfloat16 weights with a compiled AdamW of their own, in a model whose residual stream stays in float32."""

import torch
from torch import nn

torch.manual_seed(0)
weights = [(torch.randn(16, 16) / 4).to(torch.bfloat16).requires_grad_() for _ in range(3)]
means, squares = ([torch.zeros_like(w) for w in weights] for _ in range(2))


@torch.compile
def forward(x):
    for weight in weights:
        x = x + nn.functional.gelu(nn.functional.rms_norm(x, (16,)).to(torch.bfloat16) @ weight).float()
    return x


@torch.compile
def update(weight, gradient, mean, square):
    mean.mul_(0.9).add_(gradient, alpha=0.1)
    square.mul_(0.99).addcmul_(gradient, gradient, value=0.01)
    weight.mul_(1 - 1e-4).addcdiv_(mean, square.sqrt().add_(1e-6), value=-1e-2)


for _ in range(3):
    loss = (forward(torch.randn(8, 16)) - 1).square().mean()
    gradients = torch.autograd.grad(loss, weights)
    with torch.no_grad():
        for state in zip(weights, gradients, means, squares, strict=True):
            update(*state)
    print(loss.item())
