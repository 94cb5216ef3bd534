"""Experts that each take the tokens of theirs: the counts are taken out of a tensor as a list, to split by them."""

import torch
from torch import nn


class GroupedExperts(nn.Module):
    def __init__(self, width, experts):
        super().__init__()
        self.gate = nn.Linear(width, experts)
        self.experts = nn.Parameter(torch.randn(experts, width, width) / width**0.5)

    def forward(self, x):
        chance = self.gate(x).softmax(-1)
        weight, chosen = chance.max(-1)
        order = chosen.argsort(stable=True)
        counts = nn.functional.one_hot(chosen, len(self.experts)).sum(0)
        groups = torch.split(x[order], counts.tolist())
        out = torch.cat([group @ expert for group, expert in zip(groups, self.experts, strict=True)])
        return torch.zeros_like(x).index_copy(0, order, out) * weight[:, None]


def main():
    torch.manual_seed(0)
    layer = torch.compile(GroupedExperts(8, 3).eval(), backend="aot_eager")
    with torch.no_grad():
        for batch in range(5):
            print(f"batch {batch}: {layer(torch.randn(48, 8)).norm().item():.4f}")


main()
