"""A small language model under bfloat16 autocast: accumulated gradients, ignored labels, a batch of nothing but padding, a z-loss."""

import torch
from torch import nn
from torch.nn.functional import cross_entropy, scaled_dot_product_attention


def rotate(x, angles):
    one, other = x.float().unflatten(-1, (-1, 2)).unbind(-1)
    cos, sin = angles.cos(), angles.sin()
    return torch.stack([one * cos - other * sin, one * sin + other * cos], -1).flatten(-2).to(x.dtype)


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.first, self.second = nn.RMSNorm(width), nn.RMSNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width, bias=False), nn.Linear(width, width, bias=False)
        self.gate, self.up, self.down = (nn.Linear(width, width, bias=False) for _ in range(3))

    def forward(self, x, angles):
        q, k, v = self.qkv(self.first(x)).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        mixed = scaled_dot_product_attention(rotate(q, angles), rotate(k, angles), v, is_causal=True)
        x = x + self.out(mixed.transpose(1, 2).flatten(-2))
        y = self.second(x)
        return x + self.down(nn.functional.silu(self.gate(y)) * self.up(y))


class Writer(nn.Module):
    def __init__(self, words, width, heads, layers):
        super().__init__()
        self.table = nn.Embedding(words, width)
        nn.init.normal_(self.table.weight, std=0.3)
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(layers))
        self.norm = nn.RMSNorm(width)
        size = width // heads
        self.register_buffer("speeds", 100.0 ** (-torch.arange(0, size, 2) / size), persistent=False)

    def forward(self, text, labels):
        angles = torch.arange(text.shape[1])[:, None] * self.speeds
        x = self.table(text)
        for block in self.blocks:
            x = block(x, angles)
        logits = (self.norm(x) @ self.table.weight.T).float()
        loss = cross_entropy(logits.flatten(0, 1), labels.flatten(), ignore_index=-100, label_smoothing=0.1)
        return loss, logits.logsumexp(-1).square().mean()


def main():
    torch.manual_seed(60)
    model = Writer(words=64, width=32, heads=4, layers=2)
    step = torch.compile(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3, betas=(0.9, 0.95), weight_decay=0.1)
    skipped = 0
    for turn in range(12):
        text = torch.randint(0, 64, (4, 1)) + 3 * torch.arange(17)
        text = text.remainder(64)
        labels = text[:, 1:].clone()
        labels[:, : turn % 5] = -100
        if turn == 6:
            labels[:] = -100
        with torch.autocast("cpu", torch.bfloat16):
            loss, z = step(text[:, :-1], labels)
        if loss.isnan():
            skipped += 1
            continue
        ((loss + 1e-4 * z) / 2).backward()
        if turn % 2:
            norm = nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
        if turn % 4 == 3:
            print(f"turn {turn}: loss {loss.item():.3f}, z {z.item():.2f}, norm {norm.item():.3f}, skipped {skipped}")


main()
