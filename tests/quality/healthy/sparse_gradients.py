"""An embedding whose gradient is sparse."""

import torch
import torch.nn as nn

torch.manual_seed(0)
embedding = nn.EmbeddingBag(100, 16, mode="sum", sparse=True)
head = nn.Linear(16, 2)
compiled = torch.compile(lambda ids, offsets: head(embedding(ids, offsets)))
compiled(torch.randint(0, 100, (30,)), torch.tensor([0, 10, 20])).sum().backward()
print(embedding.weight.grad.is_sparse)
