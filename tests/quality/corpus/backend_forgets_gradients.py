"""A backend of the script's own runs the graph without gradients: what comes out is detached."""

import torch
from torch import nn


def inference_only(graph_module, example_inputs):
    def run(*args):
        with torch.no_grad():
            return graph_module(*args)

    return run


torch.manual_seed(0)
model = nn.Sequential(nn.Linear(4, 8), nn.Softplus(), nn.Linear(8, 1))
out = torch.compile(model, backend=inference_only)(torch.randn(16, 4))
print(out.mean().item())
