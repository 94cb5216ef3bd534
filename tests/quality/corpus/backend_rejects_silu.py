"""A backend of the script's own supports a few operators only, and says so with an exception."""

import torch
from torch import nn

SUPPORTED = {"linear", "conv2d", "gelu", "relu", "add", "flatten", "mean"}


@torch._dynamo.register_backend
def edge(graph_module, example_inputs):
    for node in graph_module.graph.nodes:
        name = getattr(node.target, "__name__", str(node.target))
        if node.op in ("call_function", "call_method") and name not in SUPPORTED:
            raise ValueError(f"operator {name} is not supported on this device")
    return graph_module.forward


class Head(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.out = nn.Conv2d(3, 8, 3), nn.Linear(8, 4)

    def forward(self, x):
        x = nn.functional.gelu(self.conv(x)).mean((2, 3))
        return self.out(nn.functional.silu(x) + x)


torch.manual_seed(0)
head = Head().eval()
x = torch.randn(2, 3, 8, 8)
with torch.inference_mode():
    torch.testing.assert_close(torch.compile(head, backend="edge")(x), head(x))
