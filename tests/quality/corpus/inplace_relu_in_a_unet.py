"""A U-Net: skip connections across the model, activations in place, and a wrong relu."""

import torch
from torch import nn

torch._inductor.config.cpp.inject_relu_bug_TESTING_ONLY = "accuracy"


class Block(nn.Sequential):
    def __init__(self, inner, outer):
        super().__init__(nn.Conv2d(inner, outer, 3, padding=1), nn.GroupNorm(2, outer), nn.ReLU(inplace=True))


class UNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.down, self.bottom = Block(1, 4), nn.MaxPool2d(2), Block(4, 8)
        self.up, self.last = nn.ConvTranspose2d(8, 4, 2, stride=2), Block(8, 4)

    def forward(self, image):
        skip = self.first(image)
        h = self.up(self.bottom(self.down(skip)))
        return self.last(torch.cat([skip, h], 1)).mean(1)


torch.manual_seed(0)
model = UNet().eval()
with torch.no_grad():
    print(torch.compile(model)(torch.randn(1, 1, 8, 8)).sum())
