"""A reverberation of delays and one-pole filters that dies away through the subnormal numbers; zeros of both signs, atan2, copysign."""

import torch
from torch import nn


class Comb(nn.Module):
    """A line of delays that is written in place, block by block."""

    def __init__(self, lengths, decay):
        super().__init__()
        self.lengths = lengths
        self.gain = nn.Parameter(torch.full((len(lengths),), decay), requires_grad=False)
        self.register_buffer("lines", torch.zeros(len(lengths), max(lengths)))

    def forward(self, block):
        out = []
        for row, length in enumerate(self.lengths):
            line = self.lines[row, :length]
            heard = line[: len(block)].clone()
            fresh = torch.cat([line[len(block) :], block + self.gain[row] * heard])
            line.copy_(fresh)
            out.append(heard)
        return torch.stack(out).mean(0)


def smooth(x, state, pole: float):
    """A one-pole low pass as a product of a triangle of powers, which underflow."""
    reach = torch.arange(len(x))
    powers = pole ** (reach[:, None] - reach).clamp(min=0).float()
    out = (1 - pole) * (powers.tril() @ x) + pole ** (reach + 1.0) * state
    return out, out[-1]


@torch.compile
def room(comb, block, state):
    wet, state = smooth(comb(block), state, 0.2)
    signed = torch.copysign(wet, block)
    direction = torch.atan2(torch.zeros_like(wet) * block, wet - 1)
    return wet, state, torch.signbit(signed).sum(), direction.abs().max()


def main():
    comb = Comb(lengths=[48, 57, 71], decay=0.02)
    state, peaks = torch.tensor(0.0), []
    click = torch.zeros(40)
    click[:3] = torch.tensor([1.0, -0.5, 0.25])
    with torch.no_grad():
        for turn in range(40):
            wet, state, negative, widest = room(comb, click if turn == 0 else -torch.zeros(40), state)
            peaks.append(wet.abs().max().item())
    alive = sum(peak > 1e-30 for peak in peaks)
    print(f"blocks above the floor {alive}, loudest {max(peaks):.4f}, last {peaks[-1] < 1e-37}")
    print(f"negative {int(negative)}, direction {widest:.4f}, tenth peak {peaks[10]:.3e}")


main()
