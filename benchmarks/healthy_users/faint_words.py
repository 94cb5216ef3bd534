"""Forward algorithm of a hidden Markov model without scaling: likelihoods sink into the subnormal numbers, then to zero."""

import torch
from torch import nn


class Tagger(nn.Module):
    def __init__(self, states, words):
        super().__init__()
        self.start = nn.Parameter(torch.randn(states))
        self.move = nn.Parameter(torch.randn(states, states))
        self.emit = nn.Parameter(torch.randn(states, words))

    def plain(self, text):
        """Likelihood of each prefix, as the textbook has it."""
        move, emit = self.move.softmax(-1), self.emit.softmax(-1)
        alpha = self.start.softmax(-1) * emit[:, text[:, 0]].T
        prefixes = [alpha.sum(-1)]
        for place in range(1, text.shape[1]):
            alpha = (alpha @ move) * emit[:, text[:, place]].T
            prefixes.append(alpha.sum(-1))
        return torch.stack(prefixes, 1)

    def logarithmic(self, text):
        move, emit = self.move.log_softmax(-1), self.emit.log_softmax(-1)
        alpha = self.start.log_softmax(-1) + emit[:, text[:, 0]].T
        for place in range(1, text.shape[1]):
            alpha = torch.logsumexp(alpha[:, :, None] + move, 1) + emit[:, text[:, place]].T
        return torch.logsumexp(alpha, -1)


def main():
    torch.manual_seed(31)
    tagger = Tagger(states=5, words=900)
    text = torch.randint(0, 900, (6, 16))
    likelihood = torch.compile(tagger.logarithmic)
    prefixes = torch.compile(tagger.plain)
    optimizer = torch.optim.SGD(tagger.parameters(), lr=0.3)
    for step in range(4):
        loss = -likelihood(text).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(f"step {step}: {loss.item():.2f} nats")
    with torch.no_grad():
        faint = prefixes(text)
        lost = (faint == 0).sum(1)
        per_word = faint.log()[:, :12] / torch.arange(1, 13)
    print("prefixes without a likelihood", lost.tolist())
    print("nats for a word", [round(x, 3) for x in per_word[:, -1].tolist()])


main()
