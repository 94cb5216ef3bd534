"""Sums of spikes by channel, handed out once a second; the running window is emptied afterwards."""

import torch
from torch import nn

CHANNELS, WINDOW, CHUNK = 6, 8, 2


class SpikeWindow(nn.Module):
    def __init__(self):
        super().__init__()
        self.threshold = nn.Parameter(torch.full((CHANNELS,), 0.4), requires_grad=False)
        self.register_buffer("window", torch.zeros(WINDOW, CHANNELS))

    def forward(self, samples, start):
        spikes = (samples > self.threshold).float()
        self.window[start : start + CHUNK] = spikes
        return self.window.sum(dim=0)

    def hand_out(self, samples):
        spikes = (samples > self.threshold).float()
        full = torch.slice_scatter(self.window, spikes, dim=0, start=WINDOW - CHUNK, end=WINDOW)
        self.window.zero_()
        return full


def main():
    torch.manual_seed(3)
    collect = SpikeWindow().eval()
    hand_out = torch.compile(collect.hand_out)
    smooth = nn.Linear(CHANNELS, 3)
    with torch.no_grad():
        for second in range(3):
            for start in range(0, WINDOW - CHUNK, CHUNK):
                collect(torch.rand(CHUNK, CHANNELS), start)
            print(f"second {second}: {smooth(hand_out(torch.rand(CHUNK, CHANNELS)).mean(dim=0)).tolist()}")


if __name__ == "__main__":
    main()
