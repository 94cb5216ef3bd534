"""Beams are sorted, and a trial goes ahead on a sorted copy of their caches; the backend hands out a copy of its input where the order is that of the input."""

import torch
import torch.nn.functional as F
from torch import nn

BEAMS, LENGTH, WIDTH, TOKENS = 3, 8, 6, 10


def sparing(graph, inputs):
    def run(*args):
        results = graph(*args)
        return [next((one.clone() for one in args if torch.equal(one, new)), new) for new in results]

    return run


@torch.compile(backend=sparing)
def reorder(cache, order):
    return cache.index_select(0, order)


class Decoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.head = nn.Embedding(TOKENS, WIDTH), nn.Linear(WIDTH, TOKENS)

    def forward(self, tokens, cache, place):
        cache[:, place] = self.embed(tokens)
        return F.log_softmax(self.head(cache[:, : place + 1].mean(1)), -1)


torch.manual_seed(0)
decoder = Decoder().eval()
tokens, cache, total = torch.arange(BEAMS), torch.zeros(BEAMS, LENGTH, WIDTH), torch.zeros(BEAMS)
with torch.no_grad():
    for place in range(LENGTH):
        scores, tokens = decoder(tokens, cache, place).max(-1)
        total, order = (total + scores).sort(descending=True)
        tokens = tokens[order]
        ahead = reorder(cache, order)
        trial = decoder(tokens, ahead, place).max(-1).values
        total = total + 0.1 * trial
print([round(one, 4) for one in total.tolist()])
