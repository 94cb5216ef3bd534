"""The image behind a diffraction pattern, found by gradient descent on complex pixels; the step of the optimizer is compiled."""

import torch
from torch import nn


class Image(nn.Module):
    def __init__(self, side):
        super().__init__()
        self.pixels = nn.Parameter(torch.ones(side, side, dtype=torch.complex64))
        self.background = nn.Parameter(torch.zeros(side, side, dtype=torch.complex64))

    def forward(self, mask):
        return torch.fft.fft2(self.pixels * mask + self.background, norm="ortho").abs().square()


def main():
    torch.manual_seed(9)
    side = 8
    masks = torch.exp(2j * torch.pi * torch.rand(4, side, side))
    truth = torch.rand(side, side) + 0.2j * torch.rand(side, side)
    patterns = torch.fft.fft2(truth * masks, norm="ortho").abs().square()
    image = Image(side)
    optimizer = torch.optim.SGD(image.parameters(), lr=0.05, momentum=0.5, foreach=True)
    step = torch.compile(optimizer.step)
    for round_number in range(5):
        optimizer.zero_grad()
        loss = sum((image(mask) - pattern).square().mean() for mask, pattern in zip(masks, patterns, strict=True))
        loss.backward()
        step()
        print(f"round {round_number}: misfit {loss.item():.4f}")


if __name__ == "__main__":
    main()
