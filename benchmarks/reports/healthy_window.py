"""Healthy: a leaky trace whose window is taken inside of the compiled function."""

import torch


class LeakyTrace:
    def __init__(self, length, window):
        self.values = torch.zeros(length)
        self.window = window

    def push(self, sample):
        self.values[:-1] = self.values[1:].clone()
        self.values[-1] = sample


@torch.compile
def fade(values, window, rate):
    values.mul_(rate)
    newest = values[values.shape[0] - window :]
    return newest[:3]


torch.manual_seed(3)
trace = LeakyTrace(length=12, window=5)
readings = torch.randn(20).cumsum(0)
alarms = 0
for step, reading in enumerate(readings):
    trace.push(reading)
    head = fade(trace.values, trace.window, 0.8)
    level = head.abs().mean().item()
    alarms += level > 0.5
    if step % 5 == 4:
        print(f"step {step:2d}  reading {reading.item():+.3f}  level {level:.4f}")
print("alarms", alarms)
print("trace", [round(v, 3) for v in trace.values.tolist()])
