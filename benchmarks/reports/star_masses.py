"""Stars by mass, in kilograms: standardized, and a mixture of two kinds fitted to them."""

import torch

SUN = 1.989e30


@torch.compile
def standardize(masses):
    return (masses - masses.mean()) / masses.std()


@torch.compile
def assign(values, centres, widths):
    """The share of each kind in each star."""
    distance = ((values[:, None] - centres) / widths).square()
    return torch.softmax(-0.5 * distance - widths.log(), dim=1)


def fit(values, rounds):
    centres, widths = torch.tensor([-0.5, 1.5]), torch.tensor([1.0, 1.0])
    for _ in range(rounds):
        share = assign(values, centres, widths)
        weight = share.sum(dim=0)
        centres = (share * values[:, None]).sum(dim=0) / weight
        widths = ((share * (values[:, None] - centres).square()).sum(dim=0) / weight).sqrt() + 1e-3
    return centres, widths, weight


def main():
    torch.manual_seed(5)
    dwarfs = 0.3 + 0.1 * torch.randn(300).abs()
    giants = 2.0 + 0.4 * torch.randn(80)
    masses = torch.cat([dwarfs, giants]) * SUN
    values = standardize(masses)
    centres, widths, weight = fit(values, rounds=8)
    print(f"heaviest star: {values.max().item():.3f}")
    for centre, width, count in zip(centres.tolist(), widths.tolist(), weight.tolist(), strict=True):
        print(f"kind at {centre:+.3f}, wide {width:.3f}: {count:.1f} stars")


if __name__ == "__main__":
    main()
