"""Decoding token by token, with keys and values written in place into a cache; the generated relu is wrong."""

import sys

import torch
import torch._inductor.config as config
from torch import nn

config.triton.inject_relu_bug_TESTING_ONLY = "accuracy"
config.cpp.inject_relu_bug_TESTING_ONLY = "accuracy"


class Decoder(nn.Module):
    def __init__(self, width, length):
        super().__init__()
        self.qkv, self.mlp = nn.Linear(width, 3 * width), nn.Sequential(nn.Linear(width, width), nn.ReLU())
        self.register_buffer("keys", torch.zeros(1, length, width))
        self.register_buffer("values", torch.zeros(1, length, width))

    def forward(self, x, position):
        query, key, value = self.qkv(x).chunk(3, -1)
        self.keys.index_copy_(1, position, key)
        self.values.index_copy_(1, position, value)
        mask = torch.arange(self.keys.shape[1], device=x.device) <= position
        weight = (query @ self.keys.mT).masked_fill(~mask, float("-inf")).softmax(-1)
        return x + self.mlp(weight @ self.values)


device = sys.argv[1]
torch.manual_seed(0)
decoder = Decoder(16, 12).to(device).eval()
step = torch.compile(decoder)
x = torch.randn(1, 1, 16, device=device)
with torch.no_grad():
    for position in range(4):
        x = step(x, torch.tensor([position], device=device))
print(x.sum().item())
