"""Reviews of different length are kept as one ragged tensor, normalized token by token, and rated."""

import torch
import torch.nn.functional as F
from torch import nn


class Rater(nn.Module):
    def __init__(self, words, width):
        super().__init__()
        self.words = nn.Embedding(words, width)
        self.width = width
        self.rate = nn.Linear(width, 1)

    def forward(self, tokens, offsets):
        ragged = torch.nested.nested_tensor_from_jagged(self.words(tokens), offsets)
        normal = F.layer_norm(ragged, [self.width])
        return self.rate(normal.values()).squeeze(-1)


def batch():
    lengths = torch.tensor([3, 5, 2, 4])
    offsets = torch.cat([torch.zeros(1, dtype=torch.int64), lengths.cumsum(0)])
    tokens = torch.randint(0, 20, (int(offsets[-1]),))
    stars = torch.tensor([1.0, 0.0, 1.0, 0.0]).repeat_interleave(lengths)
    return tokens, offsets, stars


def main():
    torch.manual_seed(17)
    model = Rater(words=20, width=8)
    rate = torch.compile(model)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.05)
    tokens, offsets, stars = batch()
    for epoch in range(4):
        optimizer.zero_grad()
        loss = F.binary_cross_entropy_with_logits(rate(tokens, offsets), stars)
        loss.backward()
        optimizer.step()
        print(f"epoch {epoch}: loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
