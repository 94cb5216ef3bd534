import torch


@torch.compile
def scores(a, b):
    return torch.matmul(a, b)


a = torch.ones(1, 1, 2, dtype=torch.int8)
b = torch.ones(1, 2, 2, dtype=torch.int8)
print(scores(a, b))
