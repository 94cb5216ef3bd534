"""A long series is read chunk by chunk from a generator, which hands back a summary when it is done."""

import torch


@torch.compile
def chunks(series, size):
    """Normalized chunks; what the generator returns is the range that was seen."""

    def read():
        low, high = series.min(), series.max()
        for start in range(0, len(series), size):
            yield (series[start : start + size] - low) / (high - low)
        return low, high

    return read()


def fold(reader):
    """Sum of the chunks' energies, and what the reader returned at its end."""
    total = 0.0
    while True:
        try:
            total += next(reader).pow(2).sum().item()
        except StopIteration as end:
            return total, end.value


torch.manual_seed(7)
unknown = 0
for day in range(4):
    series = torch.randn(32).cumsum(0)
    energy, seen = fold(chunks(series, 8))
    if seen is None:
        unknown += 1
        print(f"day {day}: energy {energy:.4f}, range not known")
    else:
        low, high = seen
        print(f"day {day}: energy {energy:.4f}, range {low.item():.3f} to {high.item():.3f}")
print("days without a range:", unknown)
