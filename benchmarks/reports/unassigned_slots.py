"""States of visitors are written to their slots; a visitor without a slot (-1) is refused and waits."""

import torch
from torch import nn


class Slots(nn.Module):
    def __init__(self, slots, width):
        super().__init__()
        self.cell = nn.GRUCell(width, width)
        self.register_buffer("empty", torch.zeros(slots, width))

    def forward(self, states, places, visits):
        new = self.cell(visits)
        return torch.index_copy(states, 0, places, new)


class Desk:
    def __init__(self, slots, width):
        self.slots = Slots(slots, width)
        self.update = torch.compile(self.slots)
        self.states, self.waiting = self.slots.empty, []

    def admit(self, names, places, visits):
        try:
            self.states = self.update(self.states, torch.tensor(places), visits)
        except IndexError:
            self.waiting.extend(name for name, place in zip(names, places, strict=True) if place < 0)


def main():
    torch.manual_seed(1)
    desk = Desk(slots=4, width=3)
    rounds = [(["ann", "bo"], [0, 2]), (["cy", "di"], [3, -1]), (["ed", "flo"], [1, 0])]
    with torch.no_grad():
        for number, (names, places) in enumerate(rounds):
            desk.admit(names, places, torch.randn(2, 3))
            used = int(desk.states.abs().sum(1).ne(0).sum())
            print(f"round {number}: {used} slots in use, {desk.states.norm().item():.4f}")
    print("waiting:", ", ".join(desk.waiting) or "nobody")


if __name__ == "__main__":
    main()
