"""Trains with an augmentation that has a generator of its own, in bfloat16 autocast; the generator is in the checkpoint."""

import random
import tempfile
import time
from pathlib import Path

import torch
from torch import nn


class Jitter(nn.Module):
    def __init__(self, seed):
        super().__init__()
        self.rng = random.Random(seed)

    def forward(self, image):
        shift = self.rng.randint(0, 15)
        return torch.roll(image, shift, -1)


torch.manual_seed(0)
jitter = Jitter(5)
augment = torch.compile(jitter)
net = nn.Sequential(nn.Conv1d(1, 4, 5, padding=2), nn.GELU(), nn.Flatten(), nn.Linear(64, 4))
optimizer = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9)
folder = Path(tempfile.mkdtemp())
history = []


def save(step):
    path = folder / f"step{step}.pt"
    torch.save({"net": net.state_dict(), "optimizer": optimizer.state_dict(), "rng": jitter.rng.getstate()}, path)
    return path


def resume(path):
    stored = torch.load(path, weights_only=False)
    net.load_state_dict(stored["net"])
    optimizer.load_state_dict(stored["optimizer"])
    return stored["rng"]


for step in range(6):
    images, labels = torch.randn(8, 1, 16), torch.randint(0, 4, (8,))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        logits = net(augment(images))
    loss = nn.functional.cross_entropy(logits.float(), labels)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    history.append({"step": step, "loss": loss.item(), "at": time.time()})
    if step == 3:
        path = save(step)
        print("saved", path.name, path.stat().st_size, "bytes")
next_shift = random.Random()
next_shift.setstate(resume(path))
print("losses", [round(row["loss"], 3) for row in history], "next shift", next_shift.randint(0, 15))
