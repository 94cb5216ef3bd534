"""Six transformer blocks; the activation of one of them is compiled wrongly, and the script does not notice."""

import torch
import torch._inductor.config
import torch.nn.functional as F
from torch import nn

# A fault that ships with inductor for its own tests, so that this fails with every version of torch.
torch._inductor.config.cpp.inject_relu_bug_TESTING_ONLY = "accuracy"


class Block(nn.Module):
    def __init__(self, width: int, activation: nn.Module) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.merge = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.activation = activation

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = self.qkv(self.norm1(x)).chunk(3, dim=-1)
        x = x + self.merge(F.scaled_dot_product_attention(q, k, v, is_causal=True))
        return x + self.down(self.activation(self.up(self.norm2(x))))


class Model(nn.Module):
    def __init__(self, width: int = 32, depth: int = 6) -> None:
        super().__init__()
        self.embed = nn.Embedding(256, width)
        self.blocks = nn.ModuleList(Block(width, nn.ReLU() if i == 4 else nn.GELU()) for i in range(depth))
        self.head = nn.Linear(width, 256)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.embed(tokens)
        for block in self.blocks:
            x = block(x)
        return self.head(x)


torch.manual_seed(0)
model = torch.compile(Model().eval())
with torch.no_grad():
    print(model(torch.randint(0, 256, (2, 16))).shape)
