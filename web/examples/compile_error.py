"""A convolutional network whose last activation inductor cannot compile."""

import torch
import torch._inductor.config
import torch.nn.functional as F
from torch import nn

# A fault that ships with inductor for its own tests, so that this fails with every version of torch.
torch._inductor.config.cpp.inject_relu_bug_TESTING_ONLY = "compile_error"


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 8, 3, padding=1)
        self.body = nn.Conv2d(8, 16, 3, stride=2, padding=1)
        self.head = nn.Linear(16, 10)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        x = F.silu(self.stem(images))
        x = F.relu(self.body(x))
        return self.head(x.mean((2, 3)))


torch.manual_seed(0)
net = torch.compile(Net())
print(net(torch.randn(4, 3, 16, 16)).shape)
