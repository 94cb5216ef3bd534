"""Crops are moved by a jitter whose range narrows from both ends; the schedule ends where the range is refused."""

import torch


@torch.compile
def jitter(corners, low, high):
    """Corners (boxes, 4), moved by random shifts between low and high."""
    shift = torch.empty_like(corners).uniform_(low, high)
    return corners + shift


def main():
    torch.manual_seed(4)
    corners = torch.rand(32, 4) * 100
    low, high = -3.0, 5.0
    rounds, refused = 0, 0
    for number in range(6):
        try:
            moved = jitter(corners, low, high)
        except RuntimeError:
            refused += 1
            break
        rounds += 1
        off = (moved - corners).mean().item()
        print(f"round {number}  within reach {-4.0 < off < 6.0}")
        low, high = low + 2.5, high - 1.5
    print("rounds", rounds, "refused", refused)
    print(f"last range {low:.1f} to {high:.1f}")


if __name__ == "__main__":
    main()
