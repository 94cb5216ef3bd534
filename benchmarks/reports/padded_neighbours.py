"""Averages of neighbours in a road network: junctions with an entry of -1 in their table are listed for repair."""

import torch


class Averaged(torch.nn.Module):
    def __init__(self, width):
        super().__init__()
        self.mix = torch.nn.Linear(width, width)

    def forward(self, features, table):
        """The mean over the neighbours (table) of one junction, mixed."""
        near = torch.index_select(features, 0, table)
        return torch.tanh(self.mix(near.mean(dim=0)))


def main():
    torch.manual_seed(11)
    junctions, width = 9, 6
    features = torch.randn(junctions, width)
    tables = torch.randint(0, junctions, (junctions, 4))
    tables[2, 3] = -1
    tables[7, 0] = -1

    model = torch.compile(Averaged(width).eval())
    repair, busy = [], []
    with torch.no_grad():
        for junction, table in enumerate(tables):
            try:
                mixed = model(features, table)
            except (IndexError, RuntimeError):
                repair.append(junction)
                continue
            busy.append(mixed.norm().item())
    print("junctions averaged", len(busy))
    print("junctions to repair", repair)
    print(f"mean norm {sum(busy) / len(busy):.4f}")


if __name__ == "__main__":
    main()
