"""Healthy: doses in hundredths of a unit are rounded down to whole steps of the pen, and what is left over is carried to the next meal."""

import torch
from torch import nn


class Pen(nn.Module):
    """Carbohydrates (g, one value a patient) to whole steps of each patient's pen (hundredths of a unit)."""

    def __init__(self, ratio, step):
        super().__init__()
        self.register_buffer("ratio", ratio)
        self.register_buffer("step", step)

    def forward(self, carbohydrates, carried):
        wanted = carbohydrates * self.ratio + carried
        steps = wanted // self.step
        return steps, wanted - steps * self.step


ratio = torch.tensor([10, 5, 10, 12, 10, 5])
pen = Pen(ratio, step=torch.tensor([10, 10, 20, 50, 10, 25]))
dose = torch.compile(pen)

meals = torch.tensor(
    [
        [10, 10, 60, 36, 30, 45],
        [60, 80, 25, 52, 10, 70],
        [50, 30, 45, 20, 55, 60],
    ]
)
carried = torch.zeros(6, dtype=torch.int64)
total = torch.zeros(6, dtype=torch.int64)
for name, meal in zip(("breakfast", "lunch", "dinner"), meals, strict=True):
    steps, carried = dose(meal, carried)
    total += steps
    print(f"{name:9}", "steps", steps.tolist())
    print(" " * 9, "carried", carried.tolist())

print("clicks of each pen", total.tolist())
print("patients with something left", (carried > 5).sum().item())
