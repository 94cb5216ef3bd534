import torch


@torch.compile(dynamic=True)
def doubled_backwards(x):
    return torch.repeat_interleave((x + 1).flatten(), 2).flip(0)


x = torch.arange(12.0).reshape(3, 4)
print(doubled_backwards(x))
