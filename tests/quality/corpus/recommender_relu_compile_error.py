"""A recommender with embedding bags and counters, a ReLU among other activations; the kernel of relu does not compile."""

import torch
import torch._inductor.config as inductor_config
from torch import nn

inductor_config.cpp.inject_relu_bug_TESTING_ONLY = "compile_error"


class Ranker(nn.Module):
    def __init__(self, tables=(20, 50, 10), width=8, dense=5):
        super().__init__()
        self.tables = nn.ModuleList(nn.EmbeddingBag(size, width, mode="sum") for size in tables)
        self.dense = nn.Sequential(nn.Linear(dense, 16), nn.SiLU(), nn.Linear(16, width))
        self.top = nn.Sequential(nn.Linear(4 * width, 16), nn.ReLU(), nn.Linear(16, 1))

    def forward(self, counters, ids):
        vectors = [table(ids[:, i]) for i, table in enumerate(self.tables)]
        vectors.append(self.dense(torch.log1p(counters)))
        return torch.sigmoid(self.top(torch.cat(vectors, -1))).squeeze(-1)


torch.manual_seed(0)
ranker = torch.compile(Ranker().eval())
with torch.no_grad():
    print(ranker(torch.rand(4, 5) * 30, torch.randint(0, 10, (4, 3, 2))))
