"""Two compiled reductions add up in one workspace, which each is to leave as zeros; both do."""

import torch
from torch import nn

WORKSPACE = torch.zeros(256)


def adding_up(graph, inputs):
    """Computes in a workspace of zeros, and clears it."""
    sizes = []

    def run(*args):
        (result,) = graph(*args)
        place = WORKSPACE[: result.numel()]
        place.add_(result.flatten())
        made = place.clone().view(result.shape)
        sizes.append(result.numel())
        place[: sizes[-1]].zero_()
        return (made,)

    return run


@torch.compile(backend=adding_up)
def energy(frames):
    return frames.square().mean(1)


@torch.compile(backend=adding_up)
def crossings(frames):
    return (frames[:, 1:] * frames[:, :-1]).sum(1).tanh()


class Gate(nn.Module):
    def __init__(self):
        super().__init__()
        self.mix = nn.Linear(2, 1)

    def forward(self, loud, rough):
        return torch.sigmoid(self.mix(torch.stack([loud, rough], -1)))[:, 0]


def frames_of(signal, size):
    return signal[: len(signal) // size * size].view(-1, size).clone()


torch.manual_seed(0)
gate, kept = Gate(), []
with torch.no_grad():
    for length in (32, 32, 48, 64, 40):
        frames = frames_of(torch.randn(length).cumsum(0), 8)
        open_ = gate(energy(frames), crossings(frames))
        kept.append((frames * open_[:, None]).norm().item())
print([round(one, 4) for one in kept])
