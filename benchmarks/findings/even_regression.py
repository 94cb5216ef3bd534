"""A regression whose compiled steps run eager's own kernels: both curves are one, however long it trains."""

import torch

torch.manual_seed(0)
net = torch.nn.Sequential(torch.nn.Linear(8, 32), torch.nn.Tanh(), torch.nn.Dropout(0.1), torch.nn.Linear(32, 1))
optimizer = torch.optim.AdamW(net.parameters(), lr=0.01)
compiled = torch.compile(net, backend="aot_eager")
for step in range(60):
    x = torch.randn(64, 8)
    loss = torch.nn.functional.mse_loss(compiled(x), x.sum(1, keepdim=True).sin())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 20 == 19:
        print(step + 1, round(loss.item(), 4))
