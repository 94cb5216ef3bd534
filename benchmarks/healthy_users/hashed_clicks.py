"""Feature hashing with integer overflow on purpose, embedding bags with empty bags, a count sketch and ordered ties."""

import torch
from torch import nn


def mix(ids, salt):
    """A finaliser on int64 that wraps around."""
    x = ids * -7046029254386353131 + salt
    x = (x ^ (x >> 29)) * -4658895280553007687
    return x ^ (x >> 32)


def short_mix(ids):
    """The same on int32, as the phone computes it."""
    x = ids.int() * 2654435 + 97
    x = (x << 5) ^ x
    return (x * x).remainder(64)


class Clicks(nn.Module):
    def __init__(self, rows, width):
        super().__init__()
        self.bags = nn.EmbeddingBag(rows, width, mode="sum")
        self.means = nn.EmbeddingBag(64, width, mode="mean")
        self.head = nn.Linear(2 * width, 1)
        self.register_buffer("sketch", torch.zeros(3, 128, dtype=torch.int64))

    def forward(self, ids, offsets):
        rows = mix(ids, 17).remainder(self.bags.num_embeddings)
        for depth in range(3):
            places = mix(ids, depth) & 127
            self.sketch[depth].index_add_(0, places, torch.ones_like(places))
        x = torch.cat([self.bags(rows, offsets), self.means(short_mix(ids).long(), offsets)], -1)
        return self.head(torch.tanh(x))[:, 0]


@torch.compile
def heavy(sketch, ids):
    """The most frequent ids by the sketch; equal counts keep the order of the ids."""
    counts = torch.stack([sketch[d][mix(ids, d) & 127] for d in range(3)]).amin(0)
    order = torch.sort(counts, descending=True, stable=True).indices[:5]
    return ids[order], counts[order]


def main():
    torch.manual_seed(19)
    model = Clicks(rows=500, width=8)
    step = torch.compile(model, dynamic=True)
    optimizer = torch.optim.Adagrad(model.parameters(), lr=0.1)
    taste = torch.randn(10_000)
    for turn in range(10):
        sizes = torch.randint(0, 6, (32,))
        ids = (torch.rand(int(sizes.sum())).pow(3) * 10_000).long()
        offsets = torch.cat([torch.zeros(1, dtype=torch.long), sizes.cumsum(0)[:-1]])
        label = torch.stack([taste[part].sum() > 0 for part in ids.split(sizes.tolist())]).float()
        loss = nn.functional.binary_cross_entropy_with_logits(step(ids, offsets), label)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if turn % 3 == 0:
            print(f"turn {turn}: {len(ids)} clicks, loss {loss.item():.4f}")
    ids, counts = heavy(model.sketch, torch.arange(200))
    print("frequent", ids.tolist(), counts.tolist())


main()
