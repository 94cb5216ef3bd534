"""Events are put onto a grid of nanoseconds since the start of a recording, and counted per cell."""

import torch

NANOSECONDS = 1_000_000_000


class Recording:
    def __init__(self, seconds, rate):
        self.seconds = seconds
        self.times = torch.sort(torch.rand(seconds * rate) * seconds).values
        self.charge = torch.rand(seconds * rate)

    def nanoseconds(self):
        return (self.times.double() * NANOSECONDS).long()


@torch.compile
def count(times, charge, cells):
    """Charge of each second: the edges of the cells are multiples of a second, in nanoseconds."""
    edges = torch.arange(cells, dtype=torch.int64) * NANOSECONDS
    cell = (times[:, None] >= edges[None, :]).sum(dim=1) - 1
    return edges, torch.zeros(cells).index_add(0, cell.clamp(min=0), charge)


torch.manual_seed(2)
recording = Recording(seconds=8, rate=50)
edges, charge = count(recording.nanoseconds(), recording.charge, 8)
for second in range(8):
    print(f"{edges[second].item():>12d} ns  {charge[second].item():8.4f}")
print("brightest second", charge.argmax().item())
print("all charge", round(charge.sum().item(), 3))
