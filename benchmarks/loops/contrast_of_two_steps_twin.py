"""A decoder weighs each step's scores against a copy of those of the step before, which the one buffer of the backend leaves alone."""

import torch
from torch import nn


def recorded(graph, inputs):
    buffers = []

    def replay(*args):
        results = graph(*args)
        if not buffers:
            buffers.extend(torch.empty_like(one) for one in results)
        return [buffer.copy_(one) for buffer, one in zip(buffers, results, strict=True)]

    return replay


class Decoder(nn.Module):
    def __init__(self, words, width):
        super().__init__()
        self.table = nn.Embedding(words, width)
        self.mix = nn.Linear(2 * width, width)
        self.head = nn.Linear(width, words)

    def forward(self, word, state):
        state = self.mix(torch.cat([self.table(word), state], -1)).tanh()
        return self.head(state).log_softmax(-1), state


torch.manual_seed(0)
decoder = Decoder(24, 16).eval()
step = torch.compile(decoder, backend=recorded)
word, state, before, said = torch.tensor([3]), torch.zeros(1, 16), None, []
with torch.no_grad():
    for _ in range(5):
        scores, state = step(word, state.clone())
        if before is not None:
            contrast = scores - 0.5 * before
            said.append(contrast.max().item())
        word = scores.argmax(-1)
        before = scores.clone()
print([round(one, 4) for one in said])
