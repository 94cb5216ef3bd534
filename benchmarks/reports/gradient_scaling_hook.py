"""Fine-tunes an encoder whose gradient is damped from the second epoch on, by a hook in front of its backward."""

import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Linear(6, 8)
        self.head = nn.Linear(8, 1)

    def forward(self, x):
        return self.head(torch.tanh(self.encoder(x)))


damped = []


def damp(module, grads):
    damped.append(grads[0].norm().item())
    return tuple(grad * 0.1 for grad in grads)


torch.manual_seed(0)
net = Net()
model = torch.compile(net)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
x = torch.randn(16, 6)
target = x[:, :1]
for epoch in range(3):
    if epoch == 1:
        handle = net.encoder.register_full_backward_pre_hook(damp)
    loss = nn.functional.mse_loss(model(x), target)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print("epoch", epoch, "loss", round(loss.item(), 5), "gradient", round(net.encoder.weight.grad.norm().item(), 5))
handle.remove()
print("damped", len(damped))
