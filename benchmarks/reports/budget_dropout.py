"""Trains a wide network with dropout; the memory for activations is limited by the budget of the compiler."""

import torch
import torch._functorch.config as functorch_config
from torch import nn

functorch_config.activation_memory_budget = 0.2


class Wide(nn.Module):
    def __init__(self, inputs, width):
        super().__init__()
        self.first = nn.Linear(inputs, width)
        self.second = nn.Linear(width, width)
        self.last = nn.Linear(width, 1)
        self.drop = nn.Dropout(0.5)

    def forward(self, x):
        x = self.drop(torch.tanh(self.first(x)))
        x = self.drop(torch.tanh(self.second(x)))
        return self.last(x)


def main():
    torch.manual_seed(0)
    net = Wide(8, 64)
    model = torch.compile(net)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.05)
    x = torch.randn(256, 8)
    y = torch.sin(x[:, :1]) + 0.5 * x[:, 1:2]
    for epoch in range(30):
        loss = nn.functional.mse_loss(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if epoch % 10 == 9:
            print(f"epoch {epoch:2d} loss {loss.item():.4f}")
    with torch.no_grad():
        net.eval()
        print(f"final loss without dropout {nn.functional.mse_loss(net(x), y).item():.4f}")


main()
