"""Spectrograms of speech are slowed down for listening; a scale for each axis comes from the settings."""

import torch
import torch.nn.functional as F
from torch import nn


class Slower(nn.Module):
    def __init__(self, bands, pitch, speed):
        super().__init__()
        self.scale = (pitch, speed)
        self.register_buffer("loudness", torch.linspace(1.0, 0.4, bands).view(1, 1, bands, 1))

    def forward(self, spectrogram):
        louder = spectrogram * self.loudness
        return F.interpolate(louder, scale_factor=self.scale, mode="nearest")


def voice(bands, frames, main_band):
    sound = 0.1 * torch.rand(1, 1, bands, frames)
    sound[:, :, main_band] += 1.0
    return sound


def main():
    torch.manual_seed(12)
    bands, frames = 4, 10
    slower = Slower(bands, pitch=1.2, speed=1.5)
    render = torch.compile(slower)
    speakers = {"ada": 1, "ben": 2, "cleo": 3}
    with torch.no_grad():
        for name, main_band in speakers.items():
            out = render(voice(bands, frames, main_band))
            energy = out.square().mean((0, 1, 3))
            loudest = int(energy.argmax())
            print(f"{name}: {tuple(out.shape[2:])}, loudest band {loudest}, energy {energy.sum().item():.3f}")


if __name__ == "__main__":
    main()
