"""A detector returns a dict of what its heads say, some of it None; the kernel of one head does not compile."""

import torch
from torch import nn

torch._inductor.config.cpp.inject_relu_bug_TESTING_ONLY = "compile_error"


class Detector(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.trunk = nn.Linear(width, width)
        self.heads = nn.ModuleDict({"boxes": nn.Linear(width, 4), "scores": nn.Linear(width, 3)})

    def forward(self, features, masks=None):
        h = torch.tanh(self.trunk(features))
        boxes = torch.relu(self.heads["boxes"](h))
        return {"boxes": boxes, "scores": self.heads["scores"](h).softmax(-1), "masks": masks}


torch.manual_seed(0)
detector = Detector(8).eval()
with torch.no_grad():
    found = torch.compile(detector)(torch.randn(5, 8))
print({name: value if value is None else value.shape for name, value in found.items()})
