"""Energies of overlapping windows of clips; a clip that is too short for its windows is refused and left out."""

import torch
from torch import nn


class Energies(nn.Module):
    def __init__(self, windows, size, hop):
        super().__init__()
        self.windows, self.size, self.hop = windows, size, hop
        self.register_buffer("taper", torch.hann_window(size))

    def forward(self, clip):
        clip = clip - clip.mean()
        windows = torch.as_strided(clip, (self.windows, self.size), (self.hop, 1))
        return torch.log1p((windows * self.taper).square().sum(1))


class Catalogue:
    def __init__(self, model):
        self.model, self.kept, self.left_out = model, [], []

    def add(self, name, clip):
        try:
            energies = self.model(clip)
        except RuntimeError:
            self.left_out.append(name)
            return
        self.kept.append((name, energies.max().item()))


def main():
    torch.manual_seed(4)
    catalogue = Catalogue(torch.compile(Energies(windows=12, size=16, hop=8)))
    clips = {"bell": 120, "door": 120, "click": 72, "rain": 120, "knock": 72}
    with torch.no_grad():
        for name, length in clips.items():
            catalogue.add(name, torch.randn(length))
    for name, loudest in catalogue.kept:
        print(f"{name}: {loudest:.3f}")
    print("left out:", ", ".join(catalogue.left_out) or "none")


if __name__ == "__main__":
    main()
