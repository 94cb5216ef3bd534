"""A denoising diffusion model: noise drawn per picture, group norm and channels-last, checkpointed blocks, an averaged sampler."""

import itertools

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.first, self.second = (nn.Conv2d(width, width, 3, padding=1) for _ in range(2))
        self.norm, self.time = nn.GroupNorm(4, width), nn.Linear(16, 2 * width)
        nn.init.zeros_(self.second.weight)
        self.drop = nn.Dropout2d(0.1)

    def forward(self, x, time):
        scale, shift = self.time(time)[:, :, None, None].chunk(2, 1)
        y = nn.functional.silu(self.norm(self.first(x)) * (1 + scale) + shift)
        return x + self.second(self.drop(y))


class Denoiser(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.inner, self.outer = nn.Conv2d(1, width, 3, padding=1), nn.Conv2d(width, 1, 3, padding=1)
        self.blocks = nn.ModuleList(Block(width) for _ in range(2))
        self.register_buffer("pitches", 50.0 ** -(torch.arange(8) / 8))

    def forward(self, x, level):
        angles = level[:, None] * 10 * self.pitches
        time = torch.cat([angles.sin(), angles.cos()], -1)
        x = self.inner(x)
        for block in self.blocks:
            x = checkpoint(block, x, time, use_reentrant=False) if self.training else block(x, time)
        return self.outer(x)


def loss_of(model, pictures):
    level = torch.rand(len(pictures))
    noise = torch.randn_like(pictures)
    keep = (torch.pi / 2 * level).cos()[:, None, None, None]
    guess = model(keep * pictures + (1 - keep**2).sqrt() * noise, level)
    weight = torch.minimum(keep**2 / (1 - keep**2).clamp(min=1e-4), torch.tensor(5.0))
    return (weight * (guess - noise).square()).mean()


@torch.no_grad()
def sample(model, count, steps):
    x = torch.randn(count, 1, 8, 8)
    levels = torch.linspace(0.98, 0.02, steps)
    for now, then in itertools.pairwise(levels):
        keep, after = (torch.pi / 2 * now).cos(), (torch.pi / 2 * then).cos()
        noise = model(x, now.expand(count))
        clean = ((x - (1 - keep**2).sqrt() * noise) / keep).clamp(-1, 1)
        x = after * clean + (1 - after**2).sqrt() * noise
    return x


def main():
    torch.manual_seed(34)
    model = Denoiser(8).to(memory_format=torch.channels_last)
    loss_fn, optimizer = torch.compile(loss_of), torch.optim.Adam(model.parameters(), lr=2e-3)
    averaged = torch.optim.swa_utils.AveragedModel(model, multi_avg_fn=torch.optim.swa_utils.get_ema_multi_avg_fn(0.9))
    for turn in range(6):
        rows = torch.rand(8, 1, 8, 1).round() * 2 - 1
        pictures = rows.expand(8, 1, 8, 8).contiguous(memory_format=torch.channels_last)
        loss = loss_fn(model, pictures)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        averaged.update_parameters(model)
        if turn % 2:
            print(f"turn {turn}: loss {loss.item():.4f}")
    drawn = sample(torch.compile(averaged.module.eval()), 4, 5)
    print(f"mean {drawn.mean():.3f}, deviation {drawn.std():.3f}")


main()
