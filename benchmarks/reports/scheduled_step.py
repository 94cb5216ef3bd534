"""Fine-tuning where the optimizer's step is compiled, then given a schedule."""

import torch
from torch import nn


class Regressor(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Linear(16, 1))

    def forward(self, x):
        return self.body(x).squeeze(-1)


def main():
    torch.manual_seed(7)
    model = Regressor()
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    optimizer.step = torch.compile(optimizer.step)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1 / (step + 1))
    for step in range(4):
        x = torch.randn(32, 8)
        loss = (model(x) - x.sum(dim=1)).square().mean()
        loss.backward()
        optimizer.step()
        schedule.step()
        optimizer.zero_grad()
        print(f"step {step}: {loss.item():.4f} at {schedule.get_last_lr()[0]:.5f}")


if __name__ == "__main__":
    main()
