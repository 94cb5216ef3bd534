"""A gated projection under autocast, whose halves are added: bfloat16 rounds otherwise where kernels are fused."""

import torch
from torch import nn


class Gated(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.norm = nn.LayerNorm(dim)
        self.p_in = nn.Linear(dim, 2 * dim, bias=False)
        self.g_in = nn.Linear(dim, 2 * dim, bias=False)

    def forward(self, x, mask):
        x = self.norm(x)
        x = self.p_in(x) * self.g_in(x).sigmoid()
        x = x * mask.unsqueeze(-1)
        a, b = torch.chunk(x.float(), 2, dim=-1)
        return torch.einsum("bikd,bjkd->bijd", a, b)


def main():
    torch.manual_seed(9)
    model = Gated(16)
    update = torch.compile(model)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    for step in range(3):
        x, mask = torch.randn(2, 6, 6, 16), (torch.rand(2, 6, 6) > 0.2).float()
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = update(x, mask).float().square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(f"step {step}: {loss.item():.4f}")


if __name__ == "__main__":
    main()
