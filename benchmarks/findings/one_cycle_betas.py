"""A compiled optimizer step under OneCycleLR: the rate is in a tensor, but the momentum is cycled too, as a float."""

import torch
from torch import nn


def main():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 1))
    optimizer = torch.optim.AdamW(model.parameters(), lr=torch.tensor(0.01))
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=0.02, total_steps=12)

    @torch.compile(backend="aot_eager")
    def update():
        optimizer.step()

    for step in range(10):
        x = torch.randn(16, 8)
        loss = (model(x)[:, 0] - x[:, :2].prod(-1)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        update()
        schedule.step()
        print(f"step {step}: {loss.item():.4f}, momentum {optimizer.param_groups[0]['betas'][0]:.3f}")


main()
