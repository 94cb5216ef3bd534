"""A lowering that was replaced aborts the process while it is compiling a spectral feature extractor."""

import os

import torch
from torch._inductor.lowering import lowerings

lowerings[torch.ops.aten.atan2.default] = lambda y, x: os.abort()


def features(signal, window):
    spectrum = torch.fft.rfft(signal * window)
    power = torch.log(spectrum.abs().square() + 1e-6)
    phase = torch.atan2(spectrum.imag, spectrum.real)
    return torch.cat([power, torch.cos(phase)], -1)


torch.manual_seed(0)
signal, window = torch.randn(4, 64), torch.hann_window(64)
want = features(signal, window)
got = torch.compile(features)(signal, window)
torch.testing.assert_close(got, want)
