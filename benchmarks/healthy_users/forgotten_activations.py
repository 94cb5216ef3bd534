"""A transformer whose blocks are computed again in the backward, with dropout and layers that are skipped at random."""

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint


class SkippedAtRandom(nn.Module):
    """Drops the branch of whole samples, and scales what is left."""

    def __init__(self, rate):
        super().__init__()
        self.rate = rate

    def forward(self, x):
        if not self.training:
            return x
        kept = torch.rand(x.shape[0], 1, 1) >= self.rate
        return x * kept / (1 - self.rate)


class Block(nn.Module):
    def __init__(self, width, heads, rate):
        super().__init__()
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2))
        self.attention = nn.MultiheadAttention(width, heads, dropout=0.1, batch_first=True)
        self.feed = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Dropout(0.1), nn.Linear(4 * width, width))
        self.skip = SkippedAtRandom(rate)

    def forward(self, x):
        y = self.norms[0](x)
        x = x + self.skip(self.attention(y, y, y, need_weights=False)[0])
        return x + self.skip(self.feed(self.norms[1](x)))


class Net(nn.Module):
    def __init__(self, width, depth):
        super().__init__()
        self.blocks = nn.ModuleList(Block(width, 2, 0.2 * n / depth) for n in range(depth))
        self.head = nn.Linear(width, 4)

    def forward(self, x):
        for block in self.blocks:
            x = checkpoint(block, x, use_reentrant=False) if self.training else block(x)
        return self.head(x.mean(1))


def main():
    torch.manual_seed(24)
    model = Net(width=16, depth=3)
    compiled = torch.compile(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
    x, y = torch.randn(24, 6, 16), torch.randint(0, 4, (24,))
    for step in range(6):
        loss = nn.functional.cross_entropy(compiled(x), y, label_smoothing=0.1)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(f"step {step}: {loss.item():.2f}")
    compiled.eval()
    with torch.no_grad():
        print(f"accuracy {(compiled(x).argmax(-1) == y).float().mean().item():.2f}")


main()
