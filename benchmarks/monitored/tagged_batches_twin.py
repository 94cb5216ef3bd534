"""Batches carry a tag through augmentation by a subclass of Tensor; statistics are taken without it, and garbage is logged."""

import gc
import tempfile

import torch
from torch import nn


class Tagged(torch.Tensor):
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        out = super().__torch_function__(func, types, args, kwargs or {})
        if isinstance(out, Tagged):
            out.tag = next((a.tag for a in args if isinstance(a, Tagged) and hasattr(a, "tag")), "none")
        return out


class Journal:
    def __init__(self):
        self.file = tempfile.NamedTemporaryFile("w+", suffix=".log")

    def write(self, text):
        self.file.write(text + "\n")

    def __del__(self):
        self.file.close()


torch.manual_seed(0)
net, journal = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1)), Journal()
model = torch.compile(net)
optimizer = torch.optim.SGD(net.parameters(), lr=0.05)


@torch.compile
def moments(x):
    with torch._C.DisableTorchFunctionSubclass():
        return x.mean() * 2


tags = []
for step in range(4):
    plain = torch.randn(8, 4) + step
    center = moments(plain).item()
    batch = plain.as_subclass(Tagged)
    batch.tag = f"shard-{step}"
    batch = batch - center
    tags.append(getattr(batch, "tag", None))
    x = batch.as_subclass(torch.Tensor)
    loss = (model(x) - x.sum(1, keepdim=True)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    journal.write(f"{step} {loss.item():.5f} {gc.get_count()[0]} {gc.collect()}")
print("tags", tags, "loss", round(loss.item(), 5))
