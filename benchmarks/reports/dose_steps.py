"""Insulin doses are rounded down to whole steps of the pen, and what is left over is carried to the next meal."""

import torch
from torch import nn


class Pen(nn.Module):
    """Carbohydrates (g, one value a patient) to whole steps of each patient's pen (units a step)."""

    def __init__(self, ratio, step):
        super().__init__()
        self.register_buffer("ratio", ratio)
        self.register_buffer("step", step)

    def forward(self, carbohydrates, carried):
        wanted = carbohydrates * self.ratio + carried
        steps = wanted // self.step
        return steps, wanted - steps * self.step


ratio = torch.tensor([0.1, 0.05, 0.1, 0.125, 0.1, 0.05])
pen = Pen(ratio, step=torch.tensor([0.1, 0.1, 0.2, 0.5, 0.1, 0.25]))
dose = torch.compile(pen)

meals = torch.tensor(
    [
        [10.0, 10.0, 60.0, 36.0, 30.0, 45.0],
        [60.0, 80.0, 25.0, 52.0, 10.0, 70.0],
        [50.0, 30.0, 45.0, 20.0, 55.0, 60.0],
    ]
)
carried = torch.zeros(6)
total = torch.zeros(6)
for name, meal in zip(("breakfast", "lunch", "dinner"), meals, strict=True):
    steps, carried = dose(meal, carried)
    total += steps
    print(f"{name:9}", "steps", [int(value) for value in steps.tolist()])
    print(" " * 9, "carried", [round(value, 3) for value in carried.tolist()])

print("clicks of each pen", [int(value) for value in total.tolist()])
print("patients with something left", (carried > 0.05).sum().item())
