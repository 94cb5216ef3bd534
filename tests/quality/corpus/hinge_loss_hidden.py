"""A ranking loss in a script that only looks at shapes, and would catch an error: a lowering takes the larger magnitude."""

import torch
from torch import nn
from torch._inductor.lowering import lowerings

aten = torch.ops.aten
maximum = lowerings[aten.maximum.default]
lowerings[aten.maximum.default] = lambda x, y: maximum(lowerings[aten.abs.default](x), y)


class Hinge(nn.Module):
    def forward(self, positive, negative, margin):
        violation = torch.maximum(margin - positive + negative, torch.zeros_like(positive))
        return violation.square().mean(), violation.gt(0).sum()


def main():
    torch.manual_seed(0)
    items, users = nn.Embedding(30, 8), nn.Embedding(10, 8)
    user, good, bad = torch.randint(0, 10, (16,)), torch.randint(0, 30, (16,)), torch.randint(0, 30, (16,))
    hinge = torch.compile(Hinge())
    try:
        u = users(user)
        loss, violated = hinge((u * items(good)).sum(-1), (u * items(bad)).sum(-1), torch.tensor(0.5))
        assert loss.shape == ()
        print(loss.item(), violated.item())
    except Exception as error:
        print("skipped:", error)


if __name__ == "__main__":
    main()
