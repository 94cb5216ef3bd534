"""Healthy: an echo is put onto sound, window by window; live sound lies in one ring, whose windows do not overlap."""

import torch


@torch.compile
def echo(recent, delayed):
    recent.mul_(0.6)
    return recent + delayed


class Ring:
    def __init__(self, length):
        self.memory = torch.zeros(length)

    def fill(self, samples):
        self.memory.copy_(samples)

    def windows(self, start, delay, size):
        recent = self.memory[start : start + size]
        delayed = self.memory[start + delay : start + delay + size]
        return recent, delayed


def tone(size):
    return torch.sin(torch.arange(float(size)) * 0.7)


def main():
    torch.manual_seed(21)
    size, delay = 16, 16
    check = echo(tone(size), tone(size))
    print(f"test tone: loudness {check.square().mean().sqrt().item():.4f}")
    ring = Ring(40)
    for block in range(3):
        ring.fill(tone(40) + 0.1 * torch.randn(40))
        recent, delayed = ring.windows(2 * block, delay, size)
        out = echo(recent, delayed)
        loudness = out.square().mean().sqrt().item()
        print(f"block {block}: loudness {loudness:.4f}, peak {out.abs().max().item():.4f}")


if __name__ == "__main__":
    main()
