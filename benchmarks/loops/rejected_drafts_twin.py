"""Drafts of tokens are verified, and the cache goes back behind a rejected one; the backend notes the lengths of the cache."""

import torch
import torch.nn.functional as F
from torch import nn

LENGTH, WIDTH, TOKENS = 24, 8, 16


def by_length(graph, inputs):
    known = {}

    def run(*args):
        length = next(one for one in args if one.dim() == 0)
        known[length.item()] = graph(*args)
        return known[length.item()]

    return run


@torch.compile(backend=by_length)
def summary(cache, places, length):
    weights = F.softmax(torch.where(places < length, places / 4, -torch.inf), 0)
    return weights @ cache


class Decoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.head = nn.Embedding(TOKENS, WIDTH), nn.Linear(WIDTH, TOKENS)
        self.register_buffer("cache", torch.zeros(LENGTH, WIDTH))
        self.register_buffer("places", torch.arange(LENGTH))

    def forward(self, token, length):
        self.cache[length] = self.embed(token)
        return self.head(summary(self.cache, self.places, torch.tensor(length + 1)))


torch.manual_seed(0)
decoder, draft = Decoder().eval(), nn.Embedding(TOKENS, TOKENS)
token, length, said = torch.tensor(5), 0, []
with torch.no_grad():
    for _ in range(6):
        guess = draft(token).argmax()
        real = decoder(token, length).argmax()
        score = decoder(guess, length + 1).max()
        length += 2 if guess == real else 1
        token = real
        said.append((token.item(), round(score.item(), 4)))
print(said)
