"""Beam search decoding with a rotary (complex) attention and an in-place key/value cache."""

import argparse
from dataclasses import dataclass

import torch
import torch.nn as nn
import torch.nn.functional as F


@dataclass
class Config:
    vocab: int = 50
    dim: int = 32
    heads: int = 4
    layers: int = 2
    max_len: int = 12
    beams: int = 3


def rotary(dim, length):
    freqs = 1.0 / 10000 ** (torch.arange(0, dim, 2).float() / dim)
    angles = torch.outer(torch.arange(length).float(), freqs)
    return torch.polar(torch.ones_like(angles), angles)


def rotate(x, freqs):
    pairs = torch.view_as_complex(x.float().reshape(*x.shape[:-1], -1, 2))
    return torch.view_as_real(pairs * freqs).flatten(-2).type_as(x)


class Block(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.cfg = cfg
        self.qkv = nn.Linear(cfg.dim, 3 * cfg.dim, bias=False)
        self.out = nn.Linear(cfg.dim, cfg.dim, bias=False)
        self.norm = nn.RMSNorm(cfg.dim)
        self.ff = nn.Sequential(nn.Linear(cfg.dim, 64), nn.SiLU(), nn.Linear(64, cfg.dim))
        shape = (cfg.beams, cfg.heads, cfg.max_len, cfg.dim // cfg.heads)
        self.register_buffer("k_cache", torch.zeros(shape), persistent=False)
        self.register_buffer("v_cache", torch.zeros(shape), persistent=False)

    def forward(self, x, freqs, pos):
        b = x.shape[0]
        q, k, v = self.qkv(self.norm(x)).view(b, 3, self.cfg.heads, -1).unbind(1)
        q, k = rotate(q, freqs), rotate(k, freqs)
        self.k_cache.index_copy_(2, pos, k.unsqueeze(2))
        self.v_cache.index_copy_(2, pos, v.unsqueeze(2))
        mask = (torch.arange(self.cfg.max_len) <= pos)[None, None, None]
        y = F.scaled_dot_product_attention(q.unsqueeze(2), self.k_cache, self.v_cache, attn_mask=mask)
        x = x + self.out(y.flatten(1))
        return x + self.ff(x)


class Decoder(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.cfg = cfg
        self.embed = nn.Embedding(cfg.vocab, cfg.dim)
        self.blocks = nn.ModuleList(Block(cfg) for _ in range(cfg.layers))
        self.head = nn.Linear(cfg.dim, cfg.vocab, bias=False)
        self.head.weight = self.embed.weight
        self.register_buffer("freqs", rotary(cfg.dim // cfg.heads, cfg.max_len))

    def reorder(self, order):
        for block in self.blocks:
            block.k_cache.copy_(block.k_cache[order])
            block.v_cache.copy_(block.v_cache[order])

    def forward(self, token, pos, scores, first):
        x = self.embed(token)
        for block in self.blocks:
            x = block(x, self.freqs[pos], pos)
        logp = F.log_softmax(self.head(x), -1)
        total = scores[:, None] + logp
        if first:
            total[1:] = float("-inf")
        best, flat = total.flatten().topk(self.cfg.beams)
        origin = flat // self.cfg.vocab
        self.reorder(origin)
        return best, origin, flat % self.cfg.vocab


@torch.inference_mode()
def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--length", type=int, default=8)
    args = parser.parse_args()
    torch.manual_seed(0)
    cfg = Config()
    model = Decoder(cfg).eval()
    step = torch.compile(model, mode="reduce-overhead")
    token = torch.zeros(cfg.beams, dtype=torch.long)
    scores = torch.zeros(cfg.beams)
    history = torch.empty(cfg.beams, 0, dtype=torch.long)
    for i in range(args.length):
        scores, origin, token = step(token, torch.tensor([i]), scores, i == 0)
        history = torch.cat([history[origin], token[:, None]], 1)
    print(history.tolist(), scores)


if __name__ == "__main__":
    main()
