"""Packets are written into a frame of a fixed length; the samples of the packet itself go on."""

import torch


class Sender:
    def __init__(self, frame):
        self.frame = frame
        self.sent = []

    def send(self, samples):
        self.sent.append(samples)
        return len(self.sent)


@torch.compile
def prepare(packet, gain, frame):
    """Scale a packet, reserve a whole frame for it, and return the samples that are in use."""
    samples = packet * gain
    line = samples.view(-1)
    line.resize_(frame)
    return samples * 2 - gain


torch.manual_seed(4)
sender = Sender(frame=16)
loudness = []
for number in range(5):
    packet = torch.randn(6)
    samples = prepare(packet, 0.5, sender.frame)
    sender.send(samples)
    used = samples[:6]
    loudness.append(used.pow(2).mean().item())
    print(f"packet {number}: {tuple(samples.shape)} samples, loudness {loudness[-1]:.4f}")

lengths = [len(samples) for samples in sender.sent]
print("sent", sum(lengths), "samples in", len(lengths), "packets")
print("mean loudness", round(sum(loudness) / len(loudness), 4))
