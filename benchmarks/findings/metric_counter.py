"""A running metric inside the compiled model counts its updates in a Python int: each count is another program."""

import torch
from torch import nn


class RunningAccuracy(nn.Module):
    def __init__(self, classes):
        super().__init__()
        self.updates = 0
        self.register_buffer("hits", torch.zeros(classes))
        self.register_buffer("seen", torch.zeros(classes))

    def forward(self, logits, target):
        self.updates += 1
        guess = logits.argmax(-1)
        self.hits += nn.functional.one_hot(target, self.hits.numel()).mul((guess == target)[:, None]).sum(0)
        self.seen += nn.functional.one_hot(target, self.seen.numel()).sum(0)
        return (self.hits / self.seen.clamp(min=1)).mean() * (1 - 0.5**self.updates)


class Classifier(nn.Module):
    def __init__(self, width, classes):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(width, 32), nn.ReLU(), nn.Linear(32, classes))
        self.accuracy = RunningAccuracy(classes)

    def forward(self, x, target):
        logits = self.body(x)
        return nn.functional.cross_entropy(logits, target), self.accuracy(logits.detach(), target)


def main():
    torch.manual_seed(0)
    model = Classifier(12, 4)
    step = torch.compile(model, backend="aot_eager")
    for batch in range(6):
        x, target = torch.randn(16, 12), torch.randint(0, 4, (16,))
        loss, accuracy = step(x, target)
        print(f"batch {batch}: loss {loss.item():.4f}, accuracy {accuracy.item():.4f}")


main()
