"""A recurrent network of two cells, each compiled by itself, over sequences of different lengths."""

import torch
from spot import bend, level, moment
from torch import nn


class Cell(nn.Module):
    def __init__(self, path, inputs, d):
        super().__init__()
        self.gates, self.new = nn.Linear(inputs + d, d), nn.Linear(inputs + d, d)
        self.register_buffer("level", level(path))

    def forward(self, x, hidden, when):
        both = torch.cat([x, hidden], -1)
        keep = torch.sigmoid(self.gates(both))
        return keep * hidden + (1 - keep) * bend(torch.tanh(self.new(both)), self.level * when)


class Model(nn.Module):
    def __init__(self, inputs, d):
        super().__init__()
        self.cells = nn.ModuleList([Cell("cells.0", inputs, d), Cell("cells.1", d, d)])
        for cell in self.cells:
            cell.compile()
        self.head = nn.Linear(d, 1)
        self.d = d

    def forward(self, sequence, number):
        hidden = [torch.zeros(len(sequence), self.d) for _ in self.cells]
        for time, x in enumerate(sequence.unbind(1)):
            when = moment(number=number, time=time)
            for n, cell in enumerate(self.cells):
                x = hidden[n] = cell(x, hidden[n], when)
        return self.head(x)


torch.manual_seed(0)
model = Model(6, 16)
optimizer = torch.optim.SGD(model.parameters(), lr=1e-2)
for number, length in enumerate([12, 20, 7, 16]):
    loss = model(torch.randn(8, length, 6), number).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
