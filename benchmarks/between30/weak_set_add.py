"""Live probes are registered in a weak set while the model runs."""

import weakref

import torch


class Probe:
    def __init__(self, name):
        self.name = name


probes = [Probe("in"), Probe("out")]
live = weakref.WeakSet()


@torch.compile
def traced(x, probe):
    live.add(probe)
    return x * 2


for probe in probes:
    traced(torch.ones(2), probe)
print("live", sorted(probe.name for probe in live))
