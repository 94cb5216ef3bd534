"""Positions from ranges with a robust loss: a batch whose gradient is not finite is left out and counted."""

import torch
import torch.nn.functional as F


class Calibration(torch.nn.Module):
    def __init__(self, sensors):
        super().__init__()
        self.offset = torch.nn.Parameter(torch.zeros(sensors))

    def forward(self, ranges, truth):
        return F.smooth_l1_loss(ranges + self.offset, truth)


def finite(model):
    return all(torch.isfinite(weight.grad).all().item() for weight in model.parameters())


def main():
    torch.manual_seed(2)
    sensors = 6
    bias = torch.tensor([0.4, -0.2, 0.1, 0.8, -0.6, 0.0])
    batches = []
    for _ in range(8):
        truth = 5 + torch.rand(16, sensors)
        batches.append((truth - bias + 0.05 * torch.randn(16, sensors), truth))
    batches[2][0][4, 1] = float("nan")
    batches[5][0][:, 3] = float("nan")

    model = Calibration(sensors)
    step = torch.compile(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=2.0)
    left_out = 0
    for _ in range(3):
        for ranges, truth in batches:
            optimizer.zero_grad()
            step(ranges, truth).backward()
            if not finite(model):
                left_out += 1
                continue
            optimizer.step()
    print("batches left out", left_out)
    print("offsets", [round(value, 3) for value in model.offset.tolist()])


if __name__ == "__main__":
    main()
