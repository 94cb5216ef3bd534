"""Healthy: a classifier of point clouds in bfloat16: each point also hears the one that is highest in the cloud."""

import torch
from torch import nn


class Layer(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.local = nn.Linear(width, width, bias=False)
        self.mix = nn.Linear(width, width, bias=False)
        self.cloud = nn.Linear(width, width, bias=False)

    def forward(self, points):
        points = self.local(points)
        points = points + self.mix(points)
        return points + self.cloud(points.max(dim=1, keepdim=True).values)


class Classifier(nn.Module):
    def __init__(self, width, classes):
        super().__init__()
        self.enter = nn.Linear(3, width)
        self.layers = nn.Sequential(Layer(width), nn.GELU(), Layer(width))
        self.head = nn.Linear(width, classes)

    def forward(self, clouds):
        return self.head(self.layers(self.enter(clouds)).mean(dim=1))


def make_clouds(count):
    """Flat clouds and round ones."""
    labels = torch.arange(count) % 2
    clouds = torch.randn(count, 20, 3)
    clouds[labels == 0, :, 2] *= 0.1
    return clouds.bfloat16(), labels


def main():
    torch.manual_seed(3)
    model = Classifier(width=16, classes=2).bfloat16()
    compiled = torch.compile(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    for step in range(6):
        clouds, labels = make_clouds(16)
        loss = nn.functional.cross_entropy(compiled(clouds).float(), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(f"step {step}: loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
