"""Backward passes under compiled autograd: an autograd.Function of one's own, hooks that scale and count, gradients kept of a middle value."""

import torch
from torch import nn


class Reversed(torch.autograd.Function):
    """The same values, and gradients of the other sign, as adversarial training against a nuisance needs it."""

    @staticmethod
    def forward(ctx, x, strength):
        ctx.strength = strength
        return x.view_as(x)

    @staticmethod
    def backward(ctx, grad):
        return -ctx.strength * grad, None


class Clipped(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, low, high):
        ctx.save_for_backward(x)
        ctx.bounds = low, high
        return x.clamp(low, high)

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        low, high = ctx.bounds
        inside = (x >= low) & (x <= high)
        outward = ((x < low) & (grad < 0)) | ((x > high) & (grad > 0))
        return torch.where(inside | ~outward, grad, 0.1 * grad), None, None


class Net(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(6, width), nn.Softplus(), nn.Linear(width, width))
        self.label, self.nuisance = nn.Linear(width, 1), nn.Linear(width, 2)

    def forward(self, x, strength: float):
        middle = Clipped.apply(self.body(x), -1.0, 1.0)
        return self.label(middle)[:, 0], self.nuisance(Reversed.apply(middle, strength)), middle


def main():
    torch.manual_seed(61)
    torch._dynamo.config.compiled_autograd = True
    net, seen = Net(16), []
    net.label.weight.register_hook(lambda grad: grad * 0.5)
    net.body[0].weight.register_post_accumulate_grad_hook(lambda weight: seen.append(weight.grad.norm().item()))
    run = torch.compile(net)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.8)

    @torch.compile
    def learn(x, y, kind):
        label, nuisance, middle = run(x, 0.3)
        loss = nn.functional.binary_cross_entropy_with_logits(label, y) + nn.functional.cross_entropy(nuisance, kind)
        loss.backward()
        return loss.detach(), middle.detach().abs().amax()

    for _ in range(8):
        kind = torch.randint(0, 2, (32,))
        x = torch.randn(32, 6) + kind[:, None] * torch.tensor([1.0, 0, 0, 0, 0, 0])
        optimizer.zero_grad()
        loss, widest = learn(x, (x[:, 1] * x[:, 2] > 0).float(), kind)
        optimizer.step()
    print(f"loss {loss.item():.4f}, widest {widest.item():.2f}, hooks ran {len(seen)} times, last norm {seen[-1]:.4f}")


main()
