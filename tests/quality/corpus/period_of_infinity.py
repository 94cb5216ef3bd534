"""Forecast with seasonal features. A period of infinity means: no season for this channel."""

import math
from dataclasses import dataclass, field

import torch
import torch.nn as nn


@dataclass
class Season:
    periods: list = field(default_factory=lambda: [24.0, 168.0, math.inf, 8766.0])
    hidden: int = 32


class Phase(nn.Module):
    def __init__(self, periods):
        super().__init__()
        self.register_buffer("periods", torch.tensor(periods))

    def forward(self, hours):
        within = hours[..., None] % self.periods
        scale = torch.where(self.periods.isinf(), torch.full_like(self.periods, 1e4), self.periods)
        angle = 2 * math.pi * within / scale
        return torch.cat([angle.sin(), angle.cos()], -1)


class Forecaster(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.phase = Phase(cfg.periods)
        self.rnn = nn.GRUCell(2 * len(cfg.periods) + 1, cfg.hidden)
        self.head = nn.Sequential(nn.Linear(cfg.hidden, cfg.hidden), nn.Tanh(), nn.Linear(cfg.hidden, 1))
        self.hidden = cfg.hidden

    def forward(self, values, hours):
        features = self.phase(hours)
        state = values.new_zeros(values.shape[0], self.hidden)
        outputs = []
        for t in range(values.shape[1]):
            state = self.rnn(torch.cat([values[:, t, None], features[:, t]], -1), state)
            outputs.append(self.head(state))
        return torch.cat(outputs, 1)


def main():
    torch.manual_seed(0)
    model = Forecaster(Season())
    compiled = torch.compile(model)
    opt = torch.optim.Adam(model.parameters(), 3e-3)
    for epoch in range(3):
        start = torch.randint(0, 5000, (8, 1))
        hours = (start + torch.arange(7)).float()
        series = torch.sin(hours / 24 * 2 * math.pi) + 0.1 * torch.randn(8, 7)
        pred = compiled(series[:, :-1], hours[:, :-1])
        loss = nn.functional.mse_loss(pred, series[:, 1:])
        opt.zero_grad()
        loss.backward()
        opt.step()
        print(epoch, float(loss))


if __name__ == "__main__":
    main()
