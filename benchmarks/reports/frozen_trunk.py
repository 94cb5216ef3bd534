"""A frozen trunk runs in inference mode inside of the forward; only the head behind it is trained."""

import torch
from torch import nn


class Detector(nn.Module):
    def __init__(self, patch, width, classes):
        super().__init__()
        self.patch = patch
        self.trunk = nn.Linear(patch * patch, width)
        self.head = nn.Linear(width, classes)

    def patches(self, image):
        count, height, width = image.shape
        side = self.patch
        rows = image.view(count, height // side, side, width // side, side)
        return rows.permute(0, 1, 3, 2, 4).reshape(count, -1, side * side)

    def forward(self, image):
        with torch.inference_mode():
            features = torch.tanh(self.trunk(self.patches(image))).mean(dim=1)
        return self.head(features.clone())


torch.manual_seed(0)
detector = Detector(patch=4, width=12, classes=3)
model = torch.compile(detector)
optimizer = torch.optim.SGD(detector.head.parameters(), lr=0.5)
images = torch.randn(24, 16, 16)
labels = torch.randint(0, 3, (24,))

for epoch in range(4):
    loss = nn.functional.cross_entropy(model(images), labels)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(f"epoch {epoch}  loss {loss.item():.4f}")

with torch.no_grad():
    right = (model(images).argmax(dim=1) == labels).float().mean()
print(f"right {right.item():.3f}")
