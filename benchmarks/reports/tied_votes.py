"""A committee in bfloat16: the highest of the scores wins, and shares its vote with those that are as high."""

import torch
from torch import nn


class Committee(nn.Module):
    def __init__(self, width, options, members):
        super().__init__()
        self.members = nn.ModuleList(nn.Linear(width, options) for _ in range(members))
        self.temperature = 0.37

    def forward(self, facts):
        votes = []
        for member in self.members:
            scores = member(facts) / self.temperature
            best = scores.amax(dim=-1, keepdim=True)
            winners = (scores == best).to(scores.dtype)
            votes.append(winners / winners.sum(dim=-1, keepdim=True))
        return torch.stack(votes).mean(dim=0)


def main():
    torch.manual_seed(1)
    committee = Committee(width=12, options=40, members=3).bfloat16().eval()
    decide = torch.compile(committee)
    elected = torch.zeros(40)
    with torch.no_grad():
        for meeting in range(4):
            share = decide(torch.randn(10, 12, dtype=torch.bfloat16)).float()
            elected += share.sum(dim=0)
            print(f"meeting {meeting}: {share.sum().item():.2f} votes of 10 motions")
    print("most votes:", ", ".join(f"{count:.2f}" for count in elected.topk(4).values.tolist()))


if __name__ == "__main__":
    main()
