"""A mixture of experts: where a token goes is read on the host, so that each layer breaks the graph."""

import torch
from spot import bend, level, moment
from torch import nn


class Expert(nn.Module):
    def __init__(self, path, d):
        super().__init__()
        self.up, self.down = nn.Linear(d, 2 * d), nn.Linear(2 * d, d)
        self.register_buffer("level", level(path))

    def forward(self, x, when):
        return self.down(bend(self.up(x), self.level * when))


class Mixture(nn.Module):
    def __init__(self, path, d, experts):
        super().__init__()
        self.norm, self.router = nn.LayerNorm(d), nn.Linear(d, experts)
        self.experts = nn.ModuleList(Expert(f"{path}.experts.{n}", d) for n in range(experts))
        self.register_buffer("level", level(path))

    def forward(self, x, when):
        x = bend(self.norm(x), self.level * when)
        weight, choice = torch.softmax(self.router(x), -1).max(-1)
        result = torch.zeros_like(x)
        for number, expert in enumerate(self.experts):
            mine = (choice == number).nonzero().squeeze(-1)
            if len(mine):
                result = result.index_add(0, mine, expert(x[mine], when) * weight[mine, None])
        return result


class Model(nn.Module):
    def __init__(self, depth, d, experts):
        super().__init__()
        self.layers = nn.ModuleList(Mixture(f"layers.{n}", d, experts) for n in range(depth))
        self.head = nn.Linear(d, 4)

    def forward(self, x, when):
        for layer in self.layers:
            x = x + layer(x, when)
        return self.head(x)


torch.manual_seed(0)
model = Model(3, 16, 2)
compiled = torch.compile(model)
optimizer = torch.optim.SGD(model.parameters(), lr=1e-2)
for step in range(6):
    loss = compiled(torch.randn(24, 16), moment(step=step)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
