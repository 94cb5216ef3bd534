"""Healthy: training of a small mixture of experts in bfloat16; the router is called in float32, outside of autocast."""

import torch
from torch import nn


class Router(nn.Module):
    def __init__(self, width, experts):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(experts, width) * 0.05)

    def forward(self, tokens):
        return torch.softmax(tokens @ self.weight.t(), dim=-1)


class Mixture(nn.Module):
    def __init__(self, width, experts):
        super().__init__()
        self.experts = nn.ModuleList(nn.Linear(width, width) for _ in range(experts))

    def forward(self, tokens, share):
        return sum(share[:, index, None] * torch.tanh(expert(tokens)) for index, expert in enumerate(self.experts))


def main():
    torch.manual_seed(7)
    router, model = Router(width=24, experts=4), Mixture(width=24, experts=4)
    route, mix = torch.compile(router), torch.compile(model)
    optimizer = torch.optim.SGD([*router.parameters(), *model.parameters()], lr=0.2)
    tokens = torch.randn(64, 24)
    targets = torch.tanh(tokens.roll(1, dims=1)) * (tokens[:, :1] > 0)
    for step in range(6):
        share = route(tokens)
        with torch.amp.autocast("cpu", dtype=torch.bfloat16):
            loss = (mix(tokens, share) - targets).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        norm = router.weight.grad.norm().item()
        print(f"step {step}: loss {loss.item():.5f}, gradient of the router {norm:.7f}")


if __name__ == "__main__":
    main()
