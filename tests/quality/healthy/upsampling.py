"""Images are scaled up and down, pooled and padded."""

import torch
import torch.nn.functional as F

torch.manual_seed(0)


@torch.compile
def scaled(x):
    up = F.interpolate(x, scale_factor=2, mode="bilinear", align_corners=False)
    down = F.adaptive_avg_pool2d(F.pad(up, (1, 2, 3, 0), mode="reflect"), 5)
    return up, down, F.max_pool2d(x, 2), F.avg_pool2d(x, 3, ceil_mode=True)


scaled(torch.randn(2, 3, 9, 11))
