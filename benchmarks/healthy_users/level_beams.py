"""Beam search with a translator whose last layer is young: its scores nearly all tie, and topk takes what it takes."""

import torch
from torch import nn


class Translator(nn.Module):
    def __init__(self, words, width):
        super().__init__()
        self.table = nn.Embedding(words, width)
        self.mix = nn.Linear(2 * width, width)
        self.head = nn.Linear(width, words)
        nn.init.normal_(self.head.weight, std=1e-7)
        nn.init.zeros_(self.head.bias)

    def forward(self, word, state):
        state = torch.tanh(self.mix(torch.cat([self.table(word), state], -1)))
        return self.head(state).log_softmax(-1), state


@torch.compile
def advance(model, words, scores, states):
    """One step of all beams: the best continuations over beams and words together."""
    log_probs, states = model(words, states)
    total = scores[:, None] + log_probs
    best, flat = total.flatten().topk(len(scores))
    beam, word = flat // log_probs.shape[1], flat % log_probs.shape[1]
    return word, best, states[beam], beam


@torch.no_grad()
def search(model, beams, length, width):
    words, states = torch.zeros(beams, dtype=torch.long), torch.zeros(beams, width)
    scores = torch.full((beams,), -1e9)
    scores[0] = 0.0
    written = torch.empty(beams, 0, dtype=torch.long)
    for _ in range(length):
        words, scores, states, beam = advance(model, words, scores, states)
        written = torch.cat([written[beam], words[:, None]], 1)
    return written, scores


torch.manual_seed(4)
model = Translator(words=50, width=16).eval()
written, scores = search(model, beams=4, length=6, width=16)
print("best score", f"{scores[0].item():.4f}", "spread", f"{(scores[0] - scores[-1]).item():.1e}")
print("words of the best beam", written[0].tolist())
