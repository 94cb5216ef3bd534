"""A race of the script itself: a side stream writes the input while the compiled model may be reading it, and nothing waits."""

import sys

import torch
from torch import nn

device = sys.argv[1]
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(256, 256), nn.GELU(), nn.Linear(256, 16)).to(device).eval()
compiled = torch.compile(model)
x, side = torch.zeros(512, 256, device=device), torch.cuda.Stream()
with torch.no_grad():
    for step in range(4):
        with torch.cuda.stream(side):
            torch.cuda._sleep(1_000_000)
            x.fill_(step)
        y = compiled(x)
torch.cuda.synchronize()
print(y.shape)
