"""Greedy decoding with a cache of prefixes, the least recently used goes first and a used one is put in anew; its state is one namespace, with times."""

import collections
import resource
import time
from types import SimpleNamespace

import torch
from torch import nn


class Decoder(nn.Module):
    def __init__(self, words=32, width=16):
        super().__init__()
        self.embed = nn.Embedding(words, width)
        self.out = nn.Linear(width, words)

    def forward(self, state, key, token):
        past = state.entries.pop(key)
        state.entries[key] = past
        hidden = torch.tanh(self.embed(token) + past)
        return self.out(hidden).argmax(-1), hidden


torch.manual_seed(0)
decoder = Decoder().eval()
decode = torch.compile(decoder)
state = SimpleNamespace(entries=collections.OrderedDict(), used={}, capacity=3, dropped=[], steps=0)


def open_prefix(key):
    state.entries[key] = torch.zeros(1, 16)
    state.used[key] = time.time()
    if len(state.entries) > state.capacity:
        gone, _ = state.entries.popitem(last=False)
        del state.used[gone]
        state.dropped.append(gone)


@torch.no_grad()
def generate(key, length):
    token, text = torch.tensor([1]), []
    for _ in range(length):
        token, hidden = decode(state, key, token)
        state.entries[key] = hidden * 0.5
        state.used[key] = time.time()
        state.steps += 1
        text.append(token.item())
    return text


for name in ("system", "user-a", "user-b"):
    open_prefix(name)
for name in ("user-a", "system"):
    print(name, generate(name, 3))
open_prefix("user-c")
print("user-c", generate("user-c", 3))
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
print("dropped", state.dropped, "kept", list(state.entries), "steps", state.steps, "peak", peak, "MiB")
