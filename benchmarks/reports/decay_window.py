"""Leaky trace of a sensor: the whole trace fades, and a window onto its newest part is read back."""

import torch


class LeakyTrace:
    def __init__(self, length, window):
        self.values = torch.zeros(length)
        self.newest = self.values[length - window :]

    def push(self, sample):
        self.values[:-1] = self.values[1:].clone()
        self.values[-1] = sample


def fade(values, newest, rate):
    values.mul_(rate)
    return newest[:3]


fade = torch.compile(fade)

torch.manual_seed(3)
trace = LeakyTrace(length=12, window=5)
readings = torch.randn(20).cumsum(0)
alarms = 0
for step, reading in enumerate(readings):
    trace.push(reading)
    head = fade(trace.values, trace.newest, 0.8)
    level = head.abs().mean().item()
    if level > 0.5:
        alarms += 1
    if step % 5 == 4:
        print(f"step {step:2d}  reading {reading.item():+.3f}  level {level:.4f}")
print("alarms", alarms)
print("trace", [round(v, 3) for v in trace.values.tolist()])
