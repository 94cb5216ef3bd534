"""A ResNet of timm with random weights is trained in channels-last, with an average of its weights beside it."""

import timm
import torch
from timm.loss import LabelSmoothingCrossEntropy
from timm.utils import ModelEmaV2

torch.manual_seed(11)
model = timm.create_model("resnet10t", pretrained=False, num_classes=5).to(memory_format=torch.channels_last)
average = ModelEmaV2(model, decay=0.9)
compiled = torch.compile(model)
criterion = LabelSmoothingCrossEntropy(0.1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, weight_decay=1e-4)

model.train()
for step in range(3):
    images = torch.randn(4, 3, 64, 64).contiguous(memory_format=torch.channels_last)
    labels = torch.randint(0, 5, (4,))
    optimizer.zero_grad()
    loss = criterion(compiled(images), labels)
    loss.backward()
    optimizer.step()
    average.update(model)
    print(step, f"{loss.item():.4f}")

average.module.eval()
with torch.no_grad():
    print(average.module(images).softmax(-1).amax(-1).tolist())
