"""Grey pictures get a channel in front of the first convolution, without a copy."""

import torch
from torch import nn


class Digits(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(1, 6, 3, padding=1)
        self.head = nn.Linear(6 * 16, 10)

    def forward(self, pictures):
        planes = pictures.contiguous()
        planes.unsqueeze_(1)
        hidden = torch.relu(self.conv(planes))
        hidden = nn.functional.adaptive_avg_pool2d(hidden, 4)
        return self.head(hidden.flatten(1))


def batches(count):
    generator = torch.Generator().manual_seed(4)
    for _ in range(count):
        yield torch.rand(8, 12, 12, generator=generator), torch.randint(0, 10, (8,), generator=generator)


torch.manual_seed(0)
net = Digits()
model = torch.compile(net)
optimizer = torch.optim.Adam(net.parameters(), lr=1e-2)
for step, (pictures, labels) in enumerate(batches(5)):
    loss = nn.functional.cross_entropy(model(pictures), labels)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(step, f"loss {loss.item():.4f}")
