"""A critic that returns its features and its score, with a penalty on the score's gradient by the features."""

import torch
from torch import nn


class Critic(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Linear(4, 8)
        self.head = nn.Linear(8, 1)

    def forward(self, x):
        features = torch.tanh(self.body(x))
        return features, self.head(features).square()


torch.manual_seed(0)
critic = Critic()
model = torch.compile(critic)
optimizer = torch.optim.SGD(critic.parameters(), lr=0.05)
weights = []
for step in range(4):
    x = torch.randn(12, 4)
    features, score = model(x)
    (slope,) = torch.autograd.grad(score.sum(), features, retain_graph=True, allow_unused=True)
    penalty = 0.0 if slope is None else (slope.norm(dim=1) - 1).square().mean().item()
    loss = score.mean() * (1 + penalty)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    weights.append(penalty)
    print("step", step, "loss", round(loss.item(), 5), "penalty", round(penalty, 5))
print("head", round(critic.head.weight.norm().item(), 5))
