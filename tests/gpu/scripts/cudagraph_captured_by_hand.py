"""A CUDA graph that the script captures over a compiled model, and replays on a static input, as inference servers do."""

import sys

import torch
from torch import nn

device = sys.argv[1]
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(64, 256), nn.SiLU(), nn.Linear(256, 64)).to(device).eval()
compiled = torch.compile(model)
static = torch.randn(16, 64, device=device)

with torch.no_grad():
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            compiled(static)
    torch.cuda.current_stream().wait_stream(side)

    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        output = compiled(static)

    for _ in range(4):
        batch = torch.randn(16, 64, device=device)
        static.copy_(batch)
        graph.replay()
        torch.testing.assert_close(output, model(batch), rtol=1e-3, atol=1e-3)
