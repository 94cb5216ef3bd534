"""Phase of a sound from its magnitudes alone (Griffin and Lim): stft, random phases, angles of nearly nothing, decibels of silence."""

import torch
from torch import nn


def bands(rows, count):
    """Triangles in mel."""
    edges = torch.linspace(0, 1, count + 2).square() * (rows - 1)
    place = torch.arange(rows)[None]
    low, middle, high = (edges[i : i + count, None] for i in range(3))
    return torch.minimum((place - low) / (middle - low), (high - place) / (high - middle)).clamp(min=0)


class Front(nn.Module):
    def __init__(self, size=64, hop=16, count=10):
        super().__init__()
        self.size, self.hop = size, hop
        self.register_buffer("window", torch.hann_window(size))
        self.register_buffer("mel", bands(size // 2 + 1, count))

    def spectrum(self, sound):
        return torch.stft(sound, self.size, self.hop, window=self.window, return_complex=True)

    def sound(self, spectrum, length):
        return torch.istft(spectrum, self.size, self.hop, window=self.window, length=length)

    def forward(self, sound):
        power = self.spectrum(sound).abs().square()
        decibels = 10 * (self.mel @ power).clamp(min=1e-10).log10()
        return decibels, torch.maximum(decibels, decibels.amax((-1, -2), keepdim=True) - 80)


def recover(front, magnitude, length, turns, generator):
    phase = torch.rand(magnitude.shape, generator=generator) * 2 * torch.pi
    spectrum = torch.polar(magnitude, phase)
    project = torch.compile(lambda s: front.spectrum(front.sound(s, length)))
    keep = torch.compile(lambda m, s: m * s / s.abs().clamp(min=1e-8))
    for _ in range(turns):
        spectrum = keep(magnitude, project(spectrum))
    error = (project(spectrum).abs() - magnitude).norm() / magnitude.norm()
    return front.sound(spectrum, length), error


def main():
    generator = torch.Generator().manual_seed(40)
    time = torch.arange(512) / 512
    sound = torch.stack([torch.sin(2 * torch.pi * f * time) * (time < 0.6) for f in (40.0, 90.0, 133.7)])
    sound[:, 400:] = 0
    front = Front()
    decibels, clipped = torch.compile(front)(sound)
    print(f"loudest {decibels.max():.2f} dB, quietest {decibels.min():.1f}, clipped at {clipped.amin((1, 2)).tolist()}")
    with torch.no_grad():
        again, error = recover(front, front.spectrum(sound).abs(), 512, 12, generator)
    delay = torch.fft.irfft(torch.fft.rfft(again) * torch.fft.rfft(sound).conj()).argmax(-1)
    print(
        f"off by {error:.3f}, delays {delay.tolist()}, angle of the loudest {front.spectrum(again)[0, 5].angle()[3]:.3f}"
    )


main()
