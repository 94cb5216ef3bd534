"""Box regression: rows with broken annotations are found by their NaN gradient and dropped before the step."""

import torch
import torch.nn as nn
import torch.nn.functional as F


class BoxHead(nn.Module):
    def __init__(self, channels=8):
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(3, channels, 3, padding=1),
            nn.BatchNorm2d(channels),
            nn.ReLU(),
            nn.Conv2d(channels, channels, 3, stride=2, padding=1),
            nn.ReLU(),
            nn.AdaptiveAvgPool2d(2),
            nn.Flatten(),
        )
        self.boxes = nn.Linear(4 * channels, 4)

    def forward(self, images):
        return self.boxes(self.features(images))


def decode(deltas, anchors):
    centre = anchors[:, :2] + deltas[:, :2] * anchors[:, 2:]
    size = anchors[:, 2:] * deltas[:, 2:].clamp(max=4).exp()
    return torch.cat([centre - size / 2, centre + size / 2], 1)


@torch.compile
def train_loss(model, images, anchors, target):
    boxes = decode(model(images), anchors)
    return F.smooth_l1_loss(boxes, target, beta=0.5), boxes


def main():
    torch.manual_seed(3)
    model = BoxHead()
    opt = torch.optim.SGD(model.parameters(), 1e-2)
    skipped = 0
    for step in range(4):
        images = torch.rand(6, 3, 16, 16)
        anchors = torch.rand(6, 4) + 0.5
        target = torch.rand(6, 4)
        if step == 2:
            target[1] = float("nan")
        loss, _ = train_loss(model, images, anchors, target)
        opt.zero_grad()
        loss.backward()
        if not all(p.grad.isfinite().all() for p in model.parameters()):
            skipped += 1
            continue
        opt.step()
    print("skipped", skipped)


if __name__ == "__main__":
    main()
