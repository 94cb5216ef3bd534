"""Deconvolution of stars by complex spectra: where the blur's spectrum is nearly zero, the quotient is noise."""

import torch
from torch import nn


class Deblur(nn.Module):
    """A learned Wiener filter; ``floor`` keeps the denominators from zero, barely."""

    def __init__(self, size, spread):
        super().__init__()
        x = torch.arange(size) - size // 2
        blur = torch.exp(-x.square() / (2 * spread**2))
        blur = torch.fft.ifftshift(blur[:, None] * blur[None, :] / blur.sum() ** 2)
        self.register_buffer("transfer", torch.fft.rfft2(blur))
        self.floor = nn.Parameter(torch.full((), -10.0))

    def blurred(self, image):
        return torch.fft.irfft2(torch.fft.rfft2(image) * self.transfer, s=image.shape[-2:])

    def forward(self, image):
        spectrum = torch.fft.rfft2(image)
        power = self.transfer.abs().square()
        restored = spectrum * self.transfer.conj() / (power + self.floor.exp())
        phase = torch.angle(restored * spectrum.conj())
        return torch.fft.irfft2(restored, s=image.shape[-2:]), phase.abs().mean()


def stars(batch, size):
    images = torch.zeros(batch, size * size)
    places = torch.randint(0, size * size, (batch, 8))
    return images.scatter_(1, places, torch.rand(batch, 8) + 0.5).view(batch, size, size)


def main():
    torch.manual_seed(18)
    deblur = Deblur(size=32, spread=1.6)
    compiled = torch.compile(deblur)
    optimizer = torch.optim.Adam(deblur.parameters(), lr=0.2)
    for step in range(10):
        truth = stars(4, 32)
        seen = deblur.blurred(truth) + 2e-3 * torch.randn_like(truth)
        restored, turned = compiled(seen)
        loss = nn.functional.mse_loss(restored, truth)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 3 == 0:
            print(
                f"step {step}: error {loss.item():.5f}, floor {deblur.floor.exp().item():.1e}, turned {turned.item():.1e}"
            )
    exact = (seen - compiled(deblur.blurred(seen))[0]).abs().mean().item()
    print(f"blurred and restored again: off by {exact:.4f}")


main()
