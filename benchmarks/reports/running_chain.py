"""Couples neighbours of a chain in place where that is allowed, and through a copy where it is not."""

import torch


class Chain:
    def __init__(self, length):
        generator = torch.Generator().manual_seed(5)
        self.state = torch.rand(length, generator=generator)
        self.copies = 0
        self.in_place = torch.compile(self._in_place)

    @staticmethod
    def _in_place(state, weight):
        state[1:].add_(state[:-1], alpha=weight)
        return state.max()

    def step(self, weight):
        try:
            peak = self.in_place(self.state, weight)
        except RuntimeError:
            self.copies += 1
            shifted = torch.zeros_like(self.state)
            shifted[1:] = self.state[:-1]
            self.state = self.state + weight * shifted
            peak = self.state.max()
        self.state = self.state / peak
        return peak.item()


chain = Chain(24)
for step in range(6):
    peak = chain.step(0.5)
    print(f"step {step} peak {peak:.4f} copies {chain.copies}")
print("mean state", round(chain.state.mean().item(), 5), "copies made", chain.copies)
