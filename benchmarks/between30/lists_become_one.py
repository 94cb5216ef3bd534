"""Source and target vocabulary: shared embeddings double the scale."""

import torch


class Task:
    def __init__(self, source, target):
        self.source, self.target = source, target


@torch.compile
def embed(task, x):
    if task.source is task.target:
        return x * 2
    return x * 1


task = Task(["a", "b"], ["a", "b"])
x = torch.ones(2)
print("two vocabularies", embed(task, x).tolist())
task.target = task.source
print("one vocabulary  ", embed(task, x).tolist())
