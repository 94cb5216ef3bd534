"""A custom operator writes into its argument and does not say so: what compiles it takes the call for dead code."""

import torch
from torch import nn


@torch.library.custom_op("corpus::mask_pads", mutates_args=())
def mask_pads(scores: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
    scores[torch.arange(scores.shape[-1]) >= lengths[:, None]] = -1e4
    return torch.zeros(())


@mask_pads.register_fake
def _(scores, lengths):
    return scores.new_empty(())


class Pool(nn.Module):
    def __init__(self, width=8):
        super().__init__()
        self.score = nn.Linear(width, 1)

    def forward(self, x, lengths):
        scores = self.score(torch.tanh(x)).squeeze(-1)
        mask_pads(scores, lengths)
        return (scores.softmax(-1).unsqueeze(-1) * x).sum(1)


torch.manual_seed(0)
pool = Pool()
x, lengths = torch.randn(3, 5, 8), torch.tensor([5, 3, 2])
with torch.no_grad():
    torch.testing.assert_close(torch.compile(pool)(x, lengths), pool(x, lengths))
