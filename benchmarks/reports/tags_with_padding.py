"""Trains a tagger of texts by a multi-label margin; lists of tags are padded with -1."""

import torch
from torch import nn


class Tagger(nn.Module):
    def __init__(self, words, tags):
        super().__init__()
        self.embed = nn.EmbeddingBag(words, 8)
        self.out = nn.Linear(8, tags)

    def forward(self, ids, tags):
        scores = self.out(self.embed(ids))
        return nn.functional.multilabel_margin_loss(scores, tags)


def batch():
    ids = torch.randint(0, 40, (4, 6))
    tags = torch.full((4, 5), -1)
    tags[:, 0] = ids[:, 0] % 5
    tags[::2, 1] = (ids[::2, 0] + 1) % 5
    return ids, tags


torch.manual_seed(0)
tagger = Tagger(40, 5)
model = torch.compile(tagger)
optimizer = torch.optim.SGD(tagger.parameters(), lr=0.2)
for step in range(5):
    loss = model(*batch())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print("step", step, "loss", round(loss.item(), 5))
print("weight", round(tagger.out.weight.norm().item(), 5))
