"""A residual network on a batch: the kernel throws inside a parallel region, which ends the process."""

import torch
import torch._inductor.config as inductor_config
import torch.nn.functional as F
from torch import nn

inductor_config.cpp.inject_relu_bug_TESTING_ONLY = "runtime_error"


class Residual(nn.Module):
    def __init__(self, width, activation):
        super().__init__()
        self.conv1, self.norm1 = nn.Conv2d(width, width, 3, padding=1, bias=False), nn.BatchNorm2d(width)
        self.conv2, self.norm2 = nn.Conv2d(width, width, 3, padding=1, bias=False), nn.BatchNorm2d(width)
        self.activation = activation

    def forward(self, x):
        h = F.silu(self.norm1(self.conv1(x)))
        return self.activation(x + self.norm2(self.conv2(h)))


torch.manual_seed(0)
net = nn.Sequential(
    nn.Conv2d(3, 16, 3, padding=1), Residual(16, F.silu), Residual(16, F.relu), nn.Flatten(), nn.Linear(16 * 64, 10)
).eval()
images = torch.randn(16, 3, 8, 8)
with torch.no_grad():
    torch.testing.assert_close(torch.compile(net)(images), net(images), rtol=1e-3, atol=1e-4)
