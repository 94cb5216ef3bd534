"""Routing by costs that come quantized to eight bits: the cheapest of forty gates is taken."""

import torch
from torch import nn


class CheapestGate(nn.Module):
    def __init__(self, gates):
        super().__init__()
        self.register_buffer("used", torch.zeros(gates, dtype=torch.int64))

    def forward(self, costs):
        gate = torch.argmin(costs)
        self.used[gate] += 1
        return gate


class Router(nn.Module):
    def __init__(self, gates):
        super().__init__()
        self.choose = CheapestGate(gates)

    def forward(self, costs):
        return self.choose(costs)


def main():
    torch.manual_seed(6)
    router = Router(40)
    route = torch.compile(router)
    paid = 0
    for _ in range(6):
        costs = torch.randint(3, 90, (40,)).to(torch.int8)
        paid += int(costs[route(costs)])
    print(f"paid {paid}, gates in use {int((router.choose.used > 0).sum())}")


if __name__ == "__main__":
    main()
