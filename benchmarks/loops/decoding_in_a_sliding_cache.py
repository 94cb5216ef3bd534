"""Decoding with a cache that slides: old keys are moved to the front in place, by windows that overlap once the cache is full."""

import torch
import torch.nn.functional as F
from torch import nn

LENGTH, KEPT = 12, 4


@torch.compile
def slide(target, source, decay):
    target.mul_(0).add_(decay)
    return target + source.mean(0)


class Decoder(nn.Module):
    def __init__(self, tokens=20, width=8):
        super().__init__()
        self.embed, self.head = nn.Embedding(tokens, width), nn.Linear(width, tokens)
        self.query = nn.Linear(width, width)

    def forward(self, token, cache, used):
        x = self.embed(token)
        cache[used] = x
        weights = F.softmax(cache[: used + 1] @ self.query(x), 0)
        return self.head(weights @ cache[: used + 1])


torch.manual_seed(0)
decoder, cache, spare = Decoder().eval(), torch.zeros(LENGTH, 8), torch.zeros(LENGTH, 8)
decay = torch.full((8,), 0.1)
token, used, said = torch.tensor(3), 0, []
with torch.no_grad():
    slide(spare[:KEPT].clone(), spare[KEPT : 2 * KEPT].clone(), decay)
    for _ in range(20):
        token = decoder(token, cache, used).argmax()
        said.append(token.item())
        used += 1
        if used == LENGTH:
            cache[:KEPT] = slide(cache[:KEPT], cache[KEPT // 2 : KEPT // 2 + KEPT], decay)
            used = KEPT
print(said, round(cache.sum().item(), 4))
