"""Speculative decoding: a small model guesses, a large one accepts by drawn numbers; lengths hang on the draws."""

import torch
from torch import nn


class Model(nn.Module):
    def __init__(self, words, width, layers):
        super().__init__()
        self.table = nn.Embedding(words, width)
        self.layers = nn.ModuleList(nn.GRUCell(width, width) for _ in range(layers))
        self.head = nn.Linear(width, words, bias=False)
        self.head.weight = self.table.weight

    def forward(self, text):
        states = [self.table.weight.new_zeros(len(text), self.table.embedding_dim) for _ in self.layers]
        out = []
        for word in self.table(text).unbind(1):
            for place, layer in enumerate(self.layers):
                states[place] = word = layer(word, states[place])
            out.append(word)
        return (self.head(torch.stack(out, 1)) / 0.8).softmax(-1)


def nucleus(chances, share):
    """Chances without the tail beyond ``share`` of their sum."""
    ordered, places = chances.sort(-1, descending=True)
    cut = ordered.cumsum(-1) - ordered > share
    return torch.zeros_like(chances).scatter(-1, places, ordered.masked_fill(cut, 0.0))


@torch.compile
def accept(guessed, small, large, drawn):
    """How many guesses stand, and from which chances the next word comes."""
    at = torch.arange(len(guessed))
    ratio = large[at, guessed] / small[at, guessed].clamp(min=1e-9)
    stands = (drawn < ratio).long().cumprod(0)
    count = stands.sum()
    rest = (large[:-1] - small).clamp(min=0)
    rest = torch.cat([rest, large[-1:]])[count]
    return count, rest / rest.sum().clamp(min=1e-9)


@torch.no_grad()
def write(small, large, length, ahead):
    generator = torch.Generator().manual_seed(7)
    text, turns, stood = torch.zeros(1, 8, dtype=torch.long), 0, 0
    while text.shape[1] < length:
        window, seen = text[:, -8:], []
        for _ in range(ahead):
            seen.append(nucleus(small(window[:, -8:])[:, -1], 0.9)[0])
            window = torch.cat([window, torch.multinomial(seen[-1], 1, generator=generator)[None]], 1)
        true = nucleus(large(window)[0, 7:], 0.9)
        count, chances = accept(window[0, 8:], torch.stack(seen), true, torch.rand(ahead, generator=generator))
        last = torch.multinomial(chances, 1, generator=generator)
        text = torch.cat([text, window[:, 8 : 8 + count.item()], last[None]], 1)
        turns, stood = turns + 1, stood + count.item()
    return text[0, 8:length], turns, stood


torch.manual_seed(21)
small, large = Model(30, 12, 1).eval(), Model(30, 16, 2).eval()
text, turns, stood = write(torch.compile(small), torch.compile(large), length=30, ahead=3)
print("text", text.tolist())
print(f"{turns} turns, {stood} guesses stood")
