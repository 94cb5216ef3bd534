"""Vector quantisation: nearest codes, a codebook kept by moving averages in buffers, dead codes drawn anew, perplexity."""

from dataclasses import dataclass

import torch
from torch import nn


@dataclass
class Coded:
    values: torch.Tensor
    places: torch.Tensor
    commitment: torch.Tensor
    perplexity: torch.Tensor


class Codebook(nn.Module):
    def __init__(self, codes, width, decay=0.9):
        super().__init__()
        self.decay = decay
        self.register_buffer("codes", torch.randn(codes, width))
        self.register_buffer("counts", torch.ones(codes))
        self.register_buffer("sums", self.codes.clone())

    def forward(self, x):
        flat = x.flatten(0, -2)
        apart = flat.square().sum(1, keepdim=True) - 2 * flat @ self.codes.T + self.codes.square().sum(1)
        places = apart.argmin(1)
        chosen = nn.functional.one_hot(places, len(self.codes)).to(x.dtype)
        values = (chosen @ self.codes).view_as(x)
        if self.training:
            with torch.no_grad():
                self.counts.lerp_(chosen.sum(0), 1 - self.decay)
                self.sums.lerp_(chosen.T @ flat, 1 - self.decay)
                dead = self.counts < 0.3
                drawn = flat[torch.randint(len(flat), (len(self.codes),))]
                self.sums.copy_(torch.where(dead[:, None], drawn, self.sums))
                self.counts.masked_fill_(dead, 1.0)
                self.codes.copy_(self.sums / self.counts[:, None])
        share = chosen.mean(0)
        perplexity = (-(share * (share + 1e-10).log()).sum()).exp()
        commitment = (x - values.detach()).square().mean()
        return Coded(x + (values - x).detach(), places, commitment, perplexity)


class Coder(nn.Module):
    def __init__(self, width, codes):
        super().__init__()
        self.encoder = nn.Sequential(nn.Conv1d(1, width, 4, 4), nn.SiLU(), nn.Conv1d(width, width, 1))
        self.book = Codebook(codes, width)
        self.decoder = nn.ConvTranspose1d(width, 1, 4, 4)

    def forward(self, x):
        coded = self.book(self.encoder(x).mT)
        return self.decoder(coded.values.mT), coded


def main():
    torch.manual_seed(33)
    model = Coder(width=8, codes=16)
    step = torch.compile(model)
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    for turn in range(12):
        phase, pitch = 6.28 * torch.rand(16, 1, 1), 0.1 + 0.4 * torch.rand(16, 1, 1)
        x = torch.sin(phase + pitch * torch.arange(64))
        out, coded = step(x)
        loss = nn.functional.mse_loss(out, x) + 0.25 * coded.commitment
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if turn % 4 == 3:
            used = coded.places.unique().numel()
            print(f"turn {turn}: loss {loss.item():.4f}, {used} codes, perplexity {coded.perplexity.item():.2f}")


main()
