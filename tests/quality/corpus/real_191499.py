import torch


@torch.compile
def peak(x):
    return x.argmax()


x = torch.tensor([-9, -3, -7, -5, -8, -2, -6, -4, -1, -10, -11, -12, -13, -14, -15, -16, -17, -18], dtype=torch.int8)
print(peak(x))
