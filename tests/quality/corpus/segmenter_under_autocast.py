"""Mixed precision: the whole model is compiled under autocast, and the kernel with its relu does not compile."""

import torch
from torch import nn

torch._inductor.config.cpp.inject_relu_bug_TESTING_ONLY = "compile_error"


class Segmenter(nn.Module):
    def __init__(self):
        super().__init__()
        self.down, self.up = nn.Conv2d(3, 8, 3, padding=1), nn.Conv2d(8, 2, 1)

    def forward(self, image):
        h = torch.relu(self.down(image))
        return self.up(nn.functional.avg_pool2d(h, 2)).sigmoid()


torch.manual_seed(0)
model = Segmenter().eval()
with torch.no_grad(), torch.autocast("cpu", dtype=torch.bfloat16):
    print(torch.compile(model)(torch.randn(2, 3, 8, 8)).float().mean())
