"""A filter predicts a generator for each channel, whose exponential turns the image's rows: an equivariant layer in training."""

import torch
import torch.nn.functional as F
from torch import nn


class Turns(nn.Module):
    """The exponential of a skew generator that a grouped convolution predicts."""

    def __init__(self, channels, groups):
        super().__init__()
        self.generator = nn.Conv2d(channels, channels, kernel_size=1, groups=groups, bias=False)

    def forward(self, x):
        generator = self.generator(x)
        turn = torch.matrix_exp(0.1 * generator)
        return turn @ x


class Net(nn.Module):
    def __init__(self, channels, size):
        super().__init__()
        self.turns = Turns(channels, groups=2)
        self.head = nn.Linear(channels * size * size, 1)

    def forward(self, x):
        return self.head(self.turns(x).flatten(1))[:, 0]


def main():
    torch.manual_seed(3)
    net = Net(channels=4, size=6)
    model = torch.compile(net)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
    for step in range(3):
        x = torch.rand(5, 4, 6, 6)
        loss = F.mse_loss(model(x), x.mean((1, 2, 3)))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(f"step {step}: {loss.item():.4f}")


if __name__ == "__main__":
    main()
