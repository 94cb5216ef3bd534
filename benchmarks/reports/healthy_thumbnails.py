"""Healthy: thumbnails of what a detector found: each box is cut out and brought to one size; boxes have at least one pixel."""

import torch
from torch import nn
from torch.nn import functional as F


class Thumbnail(nn.Module):
    """A crop (1, 3, h, w) as a picture of 4 by 4, with its contrast stretched."""

    def forward(self, crop):
        small = F.interpolate(crop, size=(4, 4), mode="nearest")
        return (small * 1.2 - 0.1).clamp(0, 1)


thumbnail = torch.compile(Thumbnail())


def album(picture, boxes):
    """Healthy: thumbnails of boxes (top, left, bottom, right), and how many could not be made."""
    pages, without = [], 0
    for top, left, bottom, right in boxes:
        try:
            pages.append(thumbnail(picture[:, :, top : max(bottom, top + 1), left : max(right, left + 1)]))
        except RuntimeError:
            without += 1
    return torch.cat(pages), without


torch.manual_seed(7)
picture = torch.rand(1, 3, 24, 32)
boxes = [(0, 0, 8, 8), (4, 6, 12, 14), (9, 20, 9, 30), (10, 3, 18, 11), (16, 12, 24, 12)]
with torch.no_grad():
    pages, without = album(picture, boxes)

print("thumbnails", tuple(pages.shape))
print("brightness of the first", [round(page.mean().item(), 3) for page in pages[:2]])
print("boxes without pixels", without)
