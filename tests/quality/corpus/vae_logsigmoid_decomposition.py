"""The reconstruction loss of a variational autoencoder; a decomposition has lost a sign. No comparison is made."""

import torch
import torch.nn.functional as F
from torch import nn
from torch._inductor import decomposition

aten = torch.ops.aten


def log_sigmoid_forward(x):
    z = torch.exp(-torch.abs(x))
    return torch.clamp(x, max=0) + torch.log1p(z), x.new_zeros((0,))


decomposition.decompositions[aten.log_sigmoid_forward.default] = log_sigmoid_forward


class Decoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(4, 32), nn.ELU(), nn.Linear(32, 24))

    def forward(self, z, pixels):
        logits = self.body(z)
        likelihood = pixels * F.logsigmoid(logits) + (1 - pixels) * F.logsigmoid(-logits)
        return -likelihood.sum(-1).mean()


torch.manual_seed(0)
decoder = torch.compile(Decoder())
pixels = (torch.rand(8, 24) > 0.5).float()
decoder(torch.randn(8, 4), pixels).backward()
