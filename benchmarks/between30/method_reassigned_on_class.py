"""A better schedule is put on the class while training runs."""

import torch


class Schedule:
    def factor(self):
        return 1.0


def halved(self):
    return 0.5


schedule = Schedule()


@torch.compile
def update(weight, grad):
    return weight - grad * schedule.factor()


w, g = torch.zeros(2), torch.ones(2)
w = update(w, g)
print("full", w.tolist())
Schedule.factor = halved
w = update(w, g)
print("half", w.tolist())
