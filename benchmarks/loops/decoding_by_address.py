"""Greedy decoding with a cache that is written in place; a backend keeps results by the addresses of its inputs."""

import torch
import torch.nn.functional as F
from torch import nn

LENGTH, WIDTH, TOKENS = 16, 8, 12


def remembering(graph, inputs):
    known = {}

    def run(*args):
        key = tuple(one.data_ptr() for one in args if torch.is_tensor(one))
        if key not in known:
            known[key] = tuple(one.clone() for one in graph(*args))
        return known[key]

    return run


@torch.compile(backend=remembering)
def attend(query, cache, mask):
    scores = (cache @ query).masked_fill(mask, -1e9)
    return F.softmax(scores, 0) @ cache


class Decoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.head = nn.Embedding(TOKENS, WIDTH), nn.Linear(WIDTH, TOKENS)
        self.register_buffer("query", torch.zeros(WIDTH))
        self.register_buffer("cache", torch.zeros(LENGTH, WIDTH))
        self.register_buffer("mask", torch.ones(LENGTH, dtype=torch.bool))

    def step(self, token, place):
        hidden = self.embed(token)
        self.query.copy_(hidden)
        self.cache[place] = hidden
        self.mask[place] = False
        return self.head(attend(self.query, self.cache, self.mask) + hidden)


torch.manual_seed(0)
decoder, token, said = Decoder().eval(), torch.tensor(3), []
with torch.no_grad():
    for place in range(10):
        token = decoder.step(token, place).argmax()
        said.append(token.item())
print(said)
