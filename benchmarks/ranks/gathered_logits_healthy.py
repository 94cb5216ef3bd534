"""Contrastive training over ranks: features of all are gathered within the compiled step, and each rank scores its own rows."""

import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as collectives
from torch import nn

BATCH, WIDTH = 8, 16


class Tower(nn.Module):
    def __init__(self):
        super().__init__()
        self.project = nn.Sequential(
            nn.Linear(WIDTH, 2 * WIDTH), nn.GELU(), nn.Dropout(0.1), nn.Linear(2 * WIDTH, WIDTH)
        )

    def forward(self, x):
        return nn.functional.normalize(self.project(x), dim=-1)


dist.init_process_group("gloo")
rank, ranks = dist.get_rank(), dist.get_world_size()
torch.manual_seed(0)
image, text = Tower(), Tower()


@torch.compile
def scores(images, texts):
    """The loss of this rank's images against the texts of all ranks, and how alike its own pairs are."""
    own, others = image(images), text(texts)
    gathered = collectives.all_gather_tensor(others.detach(), 0, dist.group.WORLD)
    mine = gathered[rank * BATCH : (rank + 1) * BATCH]
    labels = torch.arange(BATCH) + rank * BATCH
    return nn.functional.cross_entropy(own @ gathered.T / 0.07, labels), (own * mine).sum(-1).mean()


optimizer = torch.optim.AdamW([*image.parameters(), *text.parameters()], lr=1e-3)
torch.manual_seed(1 + rank)
for _ in range(3):
    loss, alike = scores(torch.randn(BATCH, WIDTH), torch.randn(BATCH, WIDTH))
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
dist.destroy_process_group()
