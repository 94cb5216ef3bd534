"""Only the rows of an embedding that a batch has are updated; the backend takes rows for unique if those of its first call are."""

import torch
import torch.nn.functional as F
from torch import fx, nn


def for_unique_rows(graph, inputs):
    seen = []

    class Rows(fx.Interpreter):
        def call_method(self, target, args, kwargs):
            if target != "index_add_":
                return super().call_method(target, args, kwargs)
            weight, _, rows, values = args
            seen.append(len(rows.unique()) == len(rows))
            return weight.index_put_((rows,), weight[rows] + values) if seen[0] else weight.index_add_(0, rows, values)

    return Rows(graph).run


@torch.compile(backend=for_unique_rows)
def update(weight, rows, gradient, rate):
    weight.index_add_(0, rows, -rate * gradient)


class Recommender(nn.Module):
    def __init__(self, items, width):
        super().__init__()
        self.items, self.user = nn.Embedding(items, width), nn.Linear(3, width)

    def forward(self, user, chosen):
        return (self.user(user) * chosen).sum(-1)


torch.manual_seed(0)
model, rate = Recommender(12, 6), torch.tensor(0.3)
optimizer = torch.optim.SGD(model.user.parameters(), lr=0.1)
baskets = torch.tensor([[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 8, 9], [1, 1, 4, 1], [2, 5, 7, 9]])
for step, rows in enumerate(baskets):
    chosen = F.embedding(rows, model.items.weight.detach()).requires_grad_()
    loss = F.softplus(-model(torch.randn(4, 3), chosen)).mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    with torch.no_grad():
        update(model.items.weight, rows, chosen.grad, rate)
    print(step, round(loss.item(), 4), round(model.items.weight.norm().item(), 4))
