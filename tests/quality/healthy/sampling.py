"""A variational encoder: random numbers in the middle of a network."""

import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(0)
encoder, decoder = nn.Linear(16, 8), nn.Linear(4, 16)


@torch.compile
def loss(x):
    mean, spread = encoder(x).chunk(2, -1)
    code = mean + torch.randn_like(mean) * (spread / 2).exp()
    return F.mse_loss(decoder(code), x) - 0.5 * (1 + spread - mean.square() - spread.exp()).mean()


for _ in range(3):
    loss(torch.randn(8, 16)).backward()
