"""A healthy script whose input takes most of the card: copies of it for a comparison have no room."""

import sys

import torch

device = sys.argv[1]
_, total = torch.cuda.mem_get_info()
x = torch.ones(int(total * 0.6) // 4, device=device)


@torch.compile
def add_in_place(x):
    x.add_(1)
    return x.amax()


for _ in range(3):
    print(add_in_place(x).item())
