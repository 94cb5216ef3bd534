"""A server keeps the states of its latest sessions, and drops the one that was used longest ago."""

from collections import OrderedDict

import torch
from torch import nn


class Tracker(nn.Module):
    """One recurrent step for a session; the table of states belongs to the server."""

    def __init__(self, width):
        super().__init__()
        self.cell = nn.GRUCell(width, width)

    def forward(self, states, key, message):
        state = self.cell(message, states[key])
        states[key] = state
        states.move_to_end(key)
        return state.norm()


class Server:
    def __init__(self, width, limit):
        self.tracker = torch.compile(Tracker(width))
        self.width = width
        self.limit = limit
        self.states = OrderedDict()
        self.opened = 0

    def answer(self, key, message):
        if key not in self.states:
            if len(self.states) == self.limit:
                self.states.popitem(last=False)
            self.states[key] = torch.zeros(1, self.width)
            self.opened += 1
        with torch.no_grad():
            return self.tracker(self.states, key, message).item()


torch.manual_seed(0)
server = Server(width=6, limit=3)
# Ann writes again and again, and is never the one to be dropped.
for turn, key in enumerate(["ann", "bob", "cem", "ann", "dia", "ann", "eve", "ann"]):
    score = server.answer(key, torch.randn(1, 6))
    print(f"turn {turn} {key} {score:.4f} open: {', '.join(server.states)}")
print("sessions opened:", server.opened)
