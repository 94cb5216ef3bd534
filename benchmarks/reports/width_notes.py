"""A small encoder. Helper objects note what each block has seen, for a table at the end of the training."""

import torch
import torch.nn as nn


def recorder():
    """A class whose objects write into one common table, and that table."""
    table = {"calls": 0, "widths": []}

    class Note:
        def __init__(self, name):
            self.name = name

        def touch(self, value):
            table["calls"] += 1
            table["widths"].append((self.name, value.shape[-1]))
            return value

    return Note, table


Note, table = recorder()


class Encoder(nn.Module):
    def __init__(self, width, depth):
        super().__init__()
        self.blocks = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))
        self.head = nn.Linear(width, 1)

    def forward(self, x):
        for number, block in enumerate(self.blocks):
            x = Note(f"block {number}").touch(torch.relu(block(x)))
        return self.head(x).squeeze(-1)


torch.manual_seed(0)
model = Encoder(16, 3)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
step = torch.compile(model)
batches = [torch.randn(8, 16) for _ in range(4)]
for epoch in range(2):
    total = 0.0
    for batch in batches:
        loss = (step(batch) - batch.mean(dim=-1)).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total += loss.item()
    print(f"epoch {epoch}: {total / len(batches):.4f}")
print(table["calls"], "calls, widths", sorted({width for _, width in table["widths"]}))
