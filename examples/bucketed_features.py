"""A ranking model that puts prices into buckets by floor division. The script checks the compiled model itself.

Real fault of torch 2.13 and 2.14 on CPU: float ``//`` is off by one where the quotient is just below a whole number: 1.0 // 0.1 is
9 in eager and 10 compiled. Here the wrong bucket looks up a wrong embedding, and the script notices at the very end.
"""

import torch
import torch.nn as nn


class BucketRanker(nn.Module):
    def __init__(self, buckets=64, width=16):
        super().__init__()
        self.register_buffer("step", torch.tensor([0.1, 0.2, 0.3]))
        self.embed = nn.Embedding(buckets, width)
        self.score = nn.Sequential(nn.Linear(3 * width, 32), nn.SiLU(), nn.Linear(32, 1))

    def forward(self, prices):
        bucket = (prices // self.step).clamp(0, 63).long()
        return self.score(self.embed(bucket).flatten(1))


torch.manual_seed(0)
model = BucketRanker().eval()
prices = torch.arange(1, 25).reshape(8, 3) / 10
with torch.no_grad():
    expected = model(prices)
    actual = torch.compile(model)(prices)
torch.testing.assert_close(actual, expected)
