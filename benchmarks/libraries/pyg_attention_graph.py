"""Nodes of a random graph are classified by attention over their neighbours, with the layers of torch_geometric."""

import torch
from torch import nn
from torch_geometric.nn import GATConv, GCNConv


class Network(nn.Module):
    def __init__(self, inputs, hidden, classes):
        super().__init__()
        self.first = GATConv(inputs, hidden, heads=2, dropout=0.2)
        self.second = GCNConv(2 * hidden, classes)

    def forward(self, x, edges):
        x = nn.functional.dropout(x, 0.3, self.training)
        x = nn.functional.elu(self.first(x, edges))
        return self.second(x, edges)


torch.manual_seed(21)
nodes, classes = 40, 3
x = torch.randn(nodes, 8)
edges = torch.randint(0, nodes, (2, 160))
labels = torch.randint(0, classes, (nodes,))
train = torch.rand(nodes) < 0.6

model = Network(8, 8, classes)
compiled = torch.compile(model, dynamic=True)
optimizer = torch.optim.Adam(model.parameters(), lr=0.01, weight_decay=5e-4)
for epoch in range(4):
    model.train()
    optimizer.zero_grad()
    out = compiled(x, edges)
    loss = nn.functional.cross_entropy(out[train], labels[train])
    loss.backward()
    optimizer.step()
model.eval()
with torch.no_grad():
    right = (compiled(x, edges).argmax(-1) == labels)[~train].float().mean()
print(f"loss {loss.item():.4f}, accuracy {right.item():.2f}")
