"""Healthy: groups are put onto seats; each evening they fill the hall."""

import torch
from torch import nn


class Plan(nn.Module):
    def __init__(self, groups, seats):
        super().__init__()
        self.seats = seats
        self.register_buffer("priority", torch.linspace(3.0, 1.0, groups))

    def forward(self, sizes):
        return torch.repeat_interleave(self.priority, sizes, output_size=self.seats)


class BoxOffice:
    def __init__(self, groups, seats):
        self.seats = seats
        self.plan = torch.compile(Plan(groups, seats))
        self.refused = []

    def sell(self, evening, sizes):
        try:
            seated = self.plan(torch.tensor(sizes))
        except RuntimeError:
            self.refused.append(evening)
            return None
        return seated


def main():
    office = BoxOffice(groups=4, seats=9)
    evenings = {"fri": [2, 3, 1, 3], "sat": [2, 2, 4, 1], "sun": [4, 1, 2, 2]}
    income = 0.0
    for evening, sizes in evenings.items():
        seated = office.sell(evening, sizes)
        if seated is None:
            print(f"{evening}: to be planned again")
            continue
        income += seated.sum().item()
        print(f"{evening}: {len(seated)} seats, sum of prices {seated.sum().item():.2f}")
    print(f"income {income:.2f}, refused: {', '.join(office.refused) or 'none'}")


if __name__ == "__main__":
    main()
