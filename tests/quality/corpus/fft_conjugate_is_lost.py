"""Correlation by Fourier transform; a pass before autograd drops the conjugate."""

import torch
import torch._inductor.config as inductor_config


def drop_conjugates(graph):
    for node in list(graph.nodes):
        if node.target in ("conj", torch.conj):
            node.replace_all_uses_with(node.args[0])
            graph.erase_node(node)


inductor_config.pre_grad_custom_pass = drop_conjugates


def correlate(signal, template):
    spectrum = torch.fft.fft(signal) * torch.conj(torch.fft.fft(template, n=signal.shape[-1]))
    correlation = torch.fft.ifft(spectrum).real
    return correlation / correlation.abs().amax(-1, keepdim=True)


torch.manual_seed(0)
signal, template = torch.randn(3, 32), torch.randn(8)
torch.testing.assert_close(torch.compile(correlate)(signal, template), correlate(signal, template))
