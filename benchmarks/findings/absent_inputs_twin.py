"""A block whose mask, bias and memory are always given, neutral where there is none."""

import torch
from torch import nn


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.qkv = nn.Linear(width, 3 * width)
        self.cross = nn.Linear(width, width)

    def forward(self, x, mask, bias, memory):
        q, k, v = self.qkv(x).chunk(3, -1)
        scores = q @ k.mT / q.shape[-1] ** 0.5
        scores = (scores + bias).masked_fill(~mask, -1e9)
        x = x + scores.softmax(-1) @ v
        return x + self.cross(memory).mean(1, keepdim=True)


def main():
    torch.manual_seed(0)
    block = torch.compile(Block(12).eval(), backend="aot_eager")
    given = {"mask": torch.ones(5, 5).tril().bool(), "bias": torch.randn(5, 5), "memory": torch.randn(2, 7, 12)}
    neutral = {"mask": torch.ones(5, 5).bool(), "bias": torch.zeros(5, 5), "memory": torch.zeros(2, 7, 12)}
    with torch.no_grad():
        for round_ in range(2):
            for number in range(7):
                some = {name: value for bit, (name, value) in enumerate(given.items()) if number >> bit & 1}
                x = block(torch.randn(2, 5, 12), **(neutral | some))
                print(f"{round_} {'+'.join(some) or 'nothing'}: {x.norm().item():.4f}")


main()
