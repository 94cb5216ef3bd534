"""A detector whose filters may leave nothing: nonzero, boolean masks, means of empty batches (NaN), suppression of equal boxes."""

from typing import NamedTuple

import torch
from torch import nn


class Found(NamedTuple):
    boxes: torch.Tensor
    scores: torch.Tensor
    kinds: torch.Tensor


class Detector(nn.Module):
    def __init__(self, kinds):
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(1, 8, 3, 2, 1), nn.ReLU(), nn.Conv2d(8, 8, 3, 2, 1), nn.ReLU())
        self.head = nn.Conv2d(8, 4 + kinds, 1)

    def forward(self, image, least):
        out = self.head(self.body(image)).flatten(2).mT
        boxes = torch.cat([out[..., :2], out[..., :2] + out[..., 2:4].exp()], -1)
        scores, kinds = out[..., 4:].sigmoid().max(-1)
        kept = scores > least
        return [Found(b[k], s[k], c[k]) for b, s, c, k in zip(boxes, scores, kinds, kept, strict=True)]


@torch.compile(dynamic=True)
def overlap(boxes):
    size = (boxes[:, 2:] - boxes[:, :2]).prod(-1)
    low = torch.maximum(boxes[:, None, :2], boxes[None, :, :2])
    high = torch.minimum(boxes[:, None, 2:], boxes[None, :, 2:])
    shared = (high - low).clamp(min=0).prod(-1)
    return shared / (size[:, None] + size[None] - shared)


def suppress(found, most):
    """The best of each heap, in a plain loop."""
    order = found.scores.argsort(descending=True, stable=True)
    shared, kept = overlap(found.boxes[order]), []
    for place in range(len(order)):
        if all(shared[place, other].item() <= most for other in kept):
            kept.append(place)
    return Found(*(part[order[kept]] for part in found))


def main():
    torch.manual_seed(44)
    model = Detector(kinds=3).eval()
    detect = torch.compile(model)
    image = torch.randn(2, 1, 24, 24)
    image[1] = 0.0  # a dark picture: all of its places are equal but at the border
    with torch.no_grad():
        for least in (0.5, 0.55, 0.6, 0.99):
            answers = [suppress(found, 0.3) for found in detect(image, least)]
            counts = [len(answer.scores) for answer in answers]
            means = [f"{answer.scores.mean().item():.3f}" for answer in answers]
            print(f"from {least}: {counts} boxes, mean score {means}")


main()
