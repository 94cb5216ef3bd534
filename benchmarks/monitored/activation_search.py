"""Searches an activation function: the body of a method is swapped between epochs, with a profiler and a log beside it."""

import logging

import torch
from torch import nn

logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
log = logging.getLogger("search")


def gelu_like(self, x):
    return x * torch.sigmoid(1.702 * x)


def hard_swish(self, x):
    return x * (x + 3).clamp(0, 6) / 6


class Policy:
    act = gelu_like


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.down = nn.Linear(8, 16), nn.Linear(16, 1)
        self.policy = Policy()

    def forward(self, x):
        return self.down(self.policy.act(self.up(x)))


def batches(count):
    generator = torch.Generator().manual_seed(7)
    for _ in range(count):
        x = torch.randn(16, 8, generator=generator)
        yield x, x[:, :1].sin()


torch.manual_seed(0)
net = Net()
model = torch.compile(net)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
schedule = torch.optim.lr_scheduler.StepLR(optimizer, step_size=4, gamma=0.5)
scores = {}
plan = torch.profiler.schedule(wait=5, warmup=1, active=2)
with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], schedule=plan) as profile:
    for epoch, body in enumerate((gelu_like, hard_swish)):
        Policy.act.__code__ = body.__code__
        for x, target in batches(4):
            loss = nn.functional.mse_loss(model(x), target)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
            profile.step()
        scores[body.__name__] = loss.item()
        log.info("epoch %d body %s loss %.5f", epoch, body.__name__, loss.item())
events = profile.key_averages()
log.info("%d kinds of events, %.1f ms", len(events), sum(event.self_cpu_time_total for event in events) / 1000)
print("best", min(scores, key=scores.get), scores)
