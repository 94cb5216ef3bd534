"""A real fault: attention whose keys are laid out by a single permute is taken for another pattern."""

import torch
from torch import nn


class Attention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads, self.scale = heads, (width // heads) ** -0.5
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x):
        batch, time, width = x.shape
        q, k, v = self.qkv(x).view(batch, time, 3, self.heads, -1).unbind(2)
        scores = torch.matmul(q.transpose(1, 2), k.permute(0, 2, 3, 1)) * self.scale
        mixed = torch.matmul(scores.softmax(-1), v.transpose(1, 2))
        return self.out(mixed.transpose(1, 2).reshape(batch, time, width))


torch.manual_seed(0)
model = nn.Sequential(nn.Linear(16, 16), Attention(16, 4), nn.SiLU(), nn.Linear(16, 4)).eval()
x = torch.randn(1, 4, 16)
with torch.no_grad():
    torch.testing.assert_close(torch.compile(model)(x), model(x), rtol=1e-3, atol=1e-4)
