"""A mixture of experts with a capacity: tokens are sorted by expert, and those past the capacity are left out."""

import torch
from torch import nn


class Experts(nn.Module):
    def __init__(self, width, experts, capacity):
        super().__init__()
        self.experts, self.capacity = experts, capacity
        self.gate = nn.Linear(width, experts, bias=False)
        self.up = nn.Parameter(torch.randn(experts, width, 2 * width) / width**0.5)
        self.down = nn.Parameter(torch.randn(experts, 2 * width, width) / (2 * width) ** 0.5)

    def forward(self, x):
        tokens, width = x.shape
        share = self.gate(x).float().softmax(-1)
        weight, expert = share.topk(2, dim=-1)
        weight = weight / weight.sum(-1, keepdim=True)
        order = expert.flatten().argsort(stable=True)
        chosen, source = expert.flatten()[order], order // 2
        first = torch.searchsorted(chosen, torch.arange(self.experts))
        place = torch.arange(2 * tokens) - first[chosen]
        fits = place < self.capacity
        slot = torch.where(fits, chosen * self.capacity + place, self.experts * self.capacity)
        box = x.new_zeros(self.experts * self.capacity + 1, width).index_copy(0, slot, x[source])
        hidden = torch.relu(torch.bmm(box[:-1].view(self.experts, self.capacity, width), self.up))
        out = torch.bmm(hidden, self.down).view(-1, width)
        out = torch.cat([out, out.new_zeros(1, width)])[slot] * weight.flatten()[order, None].to(x.dtype)
        load = torch.zeros(self.experts).index_add(0, chosen, torch.ones(2 * tokens)) / (2 * tokens)
        balance = self.experts * (load * share.mean(0)).sum()
        return torch.zeros_like(x).index_add(0, source, out), balance, 1 - fits.float().mean()


def main():
    torch.manual_seed(14)
    layer = Experts(width=16, experts=6, capacity=14).bfloat16()
    compiled = torch.compile(layer)
    optimizer = torch.optim.SGD(layer.parameters(), lr=0.05)
    turn = torch.linalg.qr(torch.randn(16, 16)).Q
    for step in range(8):
        x = torch.randn(32, 16)
        y, balance, dropped = compiled(x.bfloat16())
        loss = nn.functional.mse_loss(y.float(), x @ turn) + 0.01 * balance
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 3 == 1:
            print(f"step {step}: loss {loss.item():.3f}, balance {balance.item():.3f}, left out {dropped.item():.3f}")


main()
