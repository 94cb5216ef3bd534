"""Two nets that learn against each other: weights clamped to a box, hinge losses at the hinge, two optimizers, one averaged copy."""

import copy

import torch
from torch import nn


def critic(width):
    layers = [nn.Linear(a, b) for a, b in ((2, width), (width, width), (width, 1))]
    return nn.Sequential(layers[0], nn.LeakyReLU(0.2), layers[1], nn.LeakyReLU(0.2), layers[2])


def painter(width):
    return nn.Sequential(
        nn.Linear(4, width), nn.BatchNorm1d(width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 2)
    )


def rings(count):
    angle = 2 * torch.pi * torch.randint(0, 8, (count,)) / 8
    return 2 * torch.stack([angle.cos(), angle.sin()], -1) + 0.05 * torch.randn(count, 2)


@torch.compile
def critic_loss(critic, true, painted):
    judged = critic(torch.cat([true, painted]))
    return (1 - judged[: len(true)]).relu().mean() + (1 + judged[len(true) :]).relu().mean()


@torch.compile
def painter_loss(critic, painter, noise):
    return -critic(painter(noise)).mean()


@torch.no_grad()
def follow(average, model, decay=0.9):
    for kept, new in zip(average.parameters(), model.parameters(), strict=True):
        kept.lerp_(new, 1 - decay)
    for kept, new in zip(average.buffers(), model.buffers(), strict=True):
        kept.copy_(new)


def main():
    torch.manual_seed(13)
    judge, artist = critic(24), painter(24)
    average = copy.deepcopy(artist)
    optimizers = [torch.optim.Adam(model.parameters(), lr=2e-3, betas=(0.0, 0.9)) for model in (judge, artist)]
    for turn in range(30):
        for _ in range(2):
            with torch.no_grad():
                painted = artist(torch.randn(32, 4))
            loss = critic_loss(judge, rings(32), painted)
            optimizers[0].zero_grad()
            loss.backward()
            optimizers[0].step()
            with torch.no_grad():
                for weight in judge.parameters():
                    weight.clamp_(-0.3, 0.3)
        judge.requires_grad_(False)
        other = painter_loss(judge, artist, torch.randn(32, 4))
        optimizers[1].zero_grad()
        other.backward()
        optimizers[1].step()
        judge.requires_grad_(True)
        follow(average, artist)
        if turn % 10 == 9:
            with torch.no_grad():
                radius = average.eval()(torch.randn(64, 4)).norm(dim=-1).mean()
            print(f"turn {turn}: {loss.item():.3f} against {other.item():.3f}, radius {radius.item():.3f}")


main()
