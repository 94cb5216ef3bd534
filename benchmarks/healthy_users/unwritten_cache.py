"""Decoding with a cache from torch.empty: what is behind the last token is not written yet, and is masked out."""

import torch
from torch import nn


class Cache(nn.Module):
    def __init__(self, batch, heads, length, width):
        super().__init__()
        self.register_buffer("keys", torch.empty(batch, heads, length, width), persistent=False)
        self.register_buffer("values", torch.empty(batch, heads, length, width), persistent=False)

    def update(self, place, key, value):
        self.keys.index_copy_(2, place, key)
        self.values.index_copy_(2, place, value)
        return self.keys, self.values


class Attention(nn.Module):
    def __init__(self, batch, heads, length, width):
        super().__init__()
        self.heads, self.width = heads, width
        self.qkv, self.out = nn.Linear(heads * width, 3 * heads * width), nn.Linear(heads * width, heads * width)
        self.cache = Cache(batch, heads, length, width)

    def forward(self, x, place):
        batch, new, _ = x.shape
        q, k, v = self.qkv(x).view(batch, new, 3, self.heads, self.width).permute(2, 0, 3, 1, 4)
        keys, values = self.cache.update(place, k, v)
        seen = torch.arange(keys.shape[2]) <= place[:, None]
        scores = (q @ keys.mT / self.width**0.5).masked_fill(~seen, float("-inf"))
        written = seen.any(0)[:, None]
        mixed = scores.softmax(-1) @ torch.where(written, values, 0.0)
        return self.out(mixed.transpose(1, 2).reshape(batch, new, -1))


class Decoder(nn.Module):
    def __init__(self, words, batch, length, heads=2, width=8):
        super().__init__()
        self.table = nn.Embedding(words, heads * width)
        self.place = nn.Embedding(length, heads * width)
        self.blocks = nn.ModuleList(Attention(batch, heads, length, width) for _ in range(2))
        self.norms = nn.ModuleList(nn.RMSNorm(heads * width) for _ in range(3))

    def forward(self, words, place):
        x = self.table(words) + self.place(place)
        for block, norm in zip(self.blocks, self.norms, strict=False):
            x = x + block(norm(x), place)
        return self.norms[2](x[:, -1]) @ self.table.weight.T


torch.manual_seed(22)
decoder = Decoder(words=40, batch=2, length=24).eval()
step = torch.compile(decoder)
with torch.no_grad():
    words = torch.randint(0, 40, (2, 5))
    logits = decoder(words, torch.arange(5))
    for place in range(5, 14):
        new = logits.argmax(-1, keepdim=True)
        words = torch.cat([words, new], 1)
        logits = step(new, torch.tensor([place]))
print(words.tolist())
print(f"largest score {logits.max().item():.4f}")
