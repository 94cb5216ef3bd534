"""A feed-forward network whose weights torchao keeps in eight bits: a tensor subclass goes through the compiler."""

import torch
from torch import nn
from torchao.quantization import Int8WeightOnlyConfig, quantize_


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.up = nn.Linear(width, 4 * width)
        self.down = nn.Linear(4 * width, width)

    def forward(self, x):
        return x + self.down(nn.functional.gelu(self.up(self.norm(x))))


torch.manual_seed(19)
model = nn.Sequential(Block(32), Block(32), nn.Linear(32, 10)).eval()
exact = model(torch.ones(2, 32)).detach()
quantize_(model, Int8WeightOnlyConfig())
compiled = torch.compile(model, mode="default")
with torch.no_grad():
    for batch in (2, 5):
        out = compiled(torch.randn(batch, 32))
        print(batch, out.argmax(-1).tolist())
    print("off by", (compiled(torch.ones(2, 32)) - exact).abs().max().item())
