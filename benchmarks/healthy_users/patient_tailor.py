"""Training that stops early: losses compared with the best so far, deep copies of the compiled model, restarts from a saved state."""

import copy
import io

import torch
from torch import nn


class Fit(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.net = nn.Sequential(
            nn.Linear(4, width), nn.BatchNorm1d(width), nn.Mish(), nn.Dropout(0.1), nn.Linear(width, 2)
        )

    def forward(self, x):
        mean, spread = self.net(x).unbind(-1)
        return mean, nn.functional.softplus(spread) + 1e-3


def sizes(count, generator):
    x = torch.randn(count, 4, generator=generator)
    return x, (x[:, 0] * x[:, 1]).tanh() + 0.2 * torch.randn(count, generator=generator)


def run_epoch(model, x, y, optimizer=None):
    total = 0.0
    model.train(optimizer is not None)
    for part in torch.arange(len(x)).split(32):
        with torch.set_grad_enabled(optimizer is not None):
            mean, spread = model(x[part])
            loss = nn.functional.gaussian_nll_loss(mean, y[part], spread.square())
        if optimizer is not None:
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        total += loss.item() * len(part)
    return total / len(x)


def main():
    generator = torch.Generator().manual_seed(12)
    torch.manual_seed(12)
    model = torch.compile(Fit(16))
    optimizer = torch.optim.RMSprop(model.parameters(), lr=2e-3, momentum=0.9)
    train, check = sizes(96, generator), sizes(64, generator)
    best, kept, patience, disk = float("inf"), None, 3, io.BytesIO()
    for epoch in range(16):
        loss = run_epoch(model, *train, optimizer)
        held = run_epoch(model, *check)
        if held < best - 1e-4:
            best, kept, patience = held, copy.deepcopy(model.state_dict()), 3
            disk.seek(0)
            torch.save({"model": kept, "optimizer": optimizer.state_dict(), "epoch": epoch}, disk)
        else:
            patience -= 1
        if epoch % 4 == 0:
            print(f"epoch {epoch}: {loss:.4f}, held out {held:.4f}, patience {patience}")
        if patience == 0:
            break
    disk.seek(0)
    saved = torch.load(disk)
    model.load_state_dict(saved["model"])
    other = copy.deepcopy(model)
    again = run_epoch(other, *check)
    print(
        f"stopped at {epoch}, best was {saved['epoch']} with {best:.4f}, loaded {again:.4f}, close {abs(again - best) < 1e-3}"
    )


main()
