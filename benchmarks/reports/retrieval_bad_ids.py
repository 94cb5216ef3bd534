"""An embedding service that answers requests with bad ids by a default vector."""

import torch
from torch import nn


class Retriever(nn.Module):
    def __init__(self, rows, width):
        super().__init__()
        self.table = nn.Embedding(rows, width)
        self.out = nn.Linear(width, width)

    def forward(self, ids):
        return self.out(self.table(ids)).mean(0)


torch.manual_seed(0)
retriever = Retriever(6, 4).eval()
answer = torch.compile(retriever)
default = torch.zeros(4)
served = {"good": 0, "default": 0}
with torch.no_grad():
    for ids in ([0, 1, 2], [3, -2, 4], [5, 5, 0]):
        try:
            vector = answer(torch.tensor(ids))
            served["good"] += 1
        except IndexError:
            vector = default
            served["default"] += 1
        print(ids, [round(value, 3) for value in vector.tolist()])
print(served)
