"""An attention layer that builds its mask in the forward, by indexing.

Real fault of torch 2.13 and 2.14 on CPU: the assignment through two index tensors, followed by an addition and a softmax, makes
the fusion of outer loops fail with a KeyError while the code is generated.
"""

import torch
import torch.nn as nn


class MaskedAttention(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.query, self.key, self.value = (nn.Linear(width, width) for _ in range(3))

    def forward(self, x):
        time = x.size(0)
        scores = self.query(x) @ self.key(x).T / x.size(1) ** 0.5
        mask = torch.full((time, time), -1e4)
        position = torch.arange(time)
        mask[position.unsqueeze(0), position.unsqueeze(1)] = 0
        return torch.softmax(scores + mask, dim=-1) @ self.value(x)


torch.manual_seed(0)
attention = torch.compile(MaskedAttention(16).eval())
with torch.no_grad():
    print(attention(torch.randn(8, 16)).shape)
