"""A recurrence written by hand over two hundred steps, cut into pieces; states go from piece to piece, gradients at a clipping edge."""

import torch
from torch import nn


class Memory(nn.Module):
    """A cell with an orthogonal turn and a gate near one: small changes neither grow nor die."""

    def __init__(self, inputs, width):
        super().__init__()
        self.turn = nn.Parameter(torch.linalg.qr(torch.randn(width, width)).Q)
        self.drive, self.gate = nn.Linear(inputs, width), nn.Linear(inputs + width, width)
        nn.init.constant_(self.gate.bias, 3.0)
        self.head = nn.Linear(width, 1)

    def cell(self, x, state):
        keep = torch.sigmoid(self.gate(torch.cat([x, state], -1)))
        return keep * (state @ self.turn) + (1 - keep) * torch.tanh(self.drive(x))

    def forward(self, xs, state):
        outs = []
        for x in xs.unbind(1):
            state = self.cell(x, state)
            outs.append(self.head(state))
        return torch.cat(outs, 1), state


def adding(batch, length):
    """Numbers and two marks; the sum of the marked numbers is asked for at the end."""
    numbers, marks = torch.rand(batch, length), torch.zeros(batch, length)
    half = length // 2
    for low, high in ((0, half), (half, length)):
        marks.scatter_(1, torch.randint(low, high, (batch, 1)), 1.0)
    return torch.stack([numbers, marks], -1), (numbers * marks).cumsum(1)


def main():
    torch.manual_seed(70)
    memory = Memory(2, 24)
    run = torch.compile(memory)
    optimizer = torch.optim.Adam(memory.parameters(), lr=3e-3)
    scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=1e-2, total_steps=20)
    for turn in range(4):
        xs, ys = adding(16, 60)
        state, total, clipped = torch.zeros(16, 24), 0.0, 0
        for part, target in zip(xs.split(12, 1), ys.split(12, 1), strict=True):
            out, state = run(part, state)
            loss = nn.functional.huber_loss(out, target, delta=0.5)
            optimizer.zero_grad()
            loss.backward()
            norm = nn.utils.clip_grad_norm_(memory.parameters(), 0.25, norm_type="inf")
            clipped += int(norm > 0.25)
            optimizer.step()
            scheduler.step()
            state, total = state.detach(), total + loss.item()
        print(f"turn {turn}: loss {total / 5:.4f}, clipped {clipped}, state {state.norm().item():.3f}")


main()
