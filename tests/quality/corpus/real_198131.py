import torch


@torch.compile
def hand_over(dst, src):
    dst[0:, :] = src[0:, :]
    src.add_(1)
    return src


dst, src = torch.zeros(3, 4), torch.arange(12.0).view(3, 4)
hand_over(dst, src)
print(dst)
