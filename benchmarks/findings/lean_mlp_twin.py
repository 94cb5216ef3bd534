"""A feed-forward layer that computes its hidden values again in its backward by a checkpoint, which the compiler knows."""

import torch
from torch import nn
from torch.nn.functional import silu
from torch.utils.checkpoint import checkpoint


def feed_forward(x, up, down):
    return silu(x @ up) @ down


class Layer(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.up = nn.Parameter(torch.randn(width, 32 * width) / width**0.5)
        self.down = nn.Parameter(torch.randn(32 * width, width) / (32 * width) ** 0.5)

    def forward(self, x):
        return x + checkpoint(feed_forward, self.norm(x), self.up, self.down, use_reentrant=False)


def main():
    torch.manual_seed(0)
    model = nn.Sequential(*(Layer(16) for _ in range(4)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    compiled = torch.compile(model, backend="aot_eager_decomp_partition")
    for step in range(3):
        x = torch.randn(16384, 16)
        loss = (compiled(x) - x.roll(1, dims=1)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(f"step {step}: loss {loss.item():.4f}")


main()
