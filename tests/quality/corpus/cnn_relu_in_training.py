"""A small image classifier in training, with batch norm, residuals and an optimizer; the script compares nothing."""

import torch
import torch._inductor.config as inductor_config
import torch.nn.functional as F
from torch import nn

inductor_config.cpp.inject_relu_bug_TESTING_ONLY = "accuracy"


class Net(nn.Module):
    def __init__(self, width=8):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, width, 3, padding=1), nn.BatchNorm2d(width))
        self.left, self.right = nn.Conv2d(width, width, 1), nn.Conv2d(width, width, 3, padding=1)
        self.head = nn.Linear(width, 5)

    def forward(self, x):
        x = F.gelu(self.stem(x))
        x = F.silu(self.left(x)) + F.relu(self.right(x))
        return self.head(F.adaptive_avg_pool2d(x, 1).flatten(1))


torch.manual_seed(0)
net = Net()
optimizer = torch.optim.Adam(net.parameters(), 1e-3)
model = torch.compile(net)
for _ in range(3):
    images, labels = torch.randn(4, 3, 8, 8), torch.randint(0, 5, (4,))
    loss = F.cross_entropy(model(images), labels)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(loss.item())
