"""A filter in the frequency domain."""

import torch

torch.manual_seed(0)


@torch.compile
def filtered(x, gain):
    spectrum = torch.fft.rfft(x)
    return (
        torch.fft.irfft(spectrum * gain, n=x.shape[-1]),
        spectrum.abs().square().sum(-1),
        torch.view_as_real(spectrum),
    )


filtered(torch.randn(4, 64), torch.randn(33, dtype=torch.complex64))
