"""Healthy: history of a price in a fixed window: the newest row comes in at the top, and the caller looks at what lies between it and the others."""

import torch


def replace_oldest(history, row, at):
    """Writes a row into the window (rows, goods) at a fixed place, and hands out how far each row is from it."""
    history[at : at + 1] = row
    return history - row


write = torch.compile(replace_oldest)

torch.manual_seed(3)
goods = 5
history = torch.zeros(3, goods)
prices = torch.tensor([10.0, 4.0, 25.0, 7.0, 1.5])
for day in range(6):
    prices = prices * (1 + 0.02 * torch.randn(goods))
    window = write(history, prices[None], day % 3)
    known = min(day + 1, 3)
    window = window - window[:known].mean(dim=0)
    spread = window[:known].abs().max().item()
    print(f"day {day}  spread {spread:.4f}  mean price {history[:known].mean().item():.4f}")

print("last prices", [round(price, 3) for price in prices.tolist()])
print("in the window", [round(price, 3) for price in history[5 % 3].tolist()])
