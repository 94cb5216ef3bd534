"""Positions in a ring by eigenvectors of its Laplacian: eigenvalues come in pairs, so their vectors turn freely."""

import torch
from torch import nn


def rings(batch, size):
    """Adjacency matrices of rings, renumbered at random: (batch, size, size)."""
    ring = torch.roll(torch.eye(size), 1, 0)
    ring = ring + ring.T
    orders = torch.stack([torch.randperm(size) for _ in range(batch)])
    return torch.stack([ring[order][:, order] for order in orders])


class Spectral(nn.Module):
    """Distances in the space of the slowest eigenvectors: whatever their signs and turns, these are the same."""

    def __init__(self, vectors, width):
        super().__init__()
        self.vectors = vectors
        self.lift = nn.Sequential(nn.Linear(1, width), nn.SiLU(), nn.Linear(width, 1))

    def forward(self, adjacency):
        degree = adjacency.sum(-1).clamp(min=1).rsqrt()
        laplacian = torch.eye(adjacency.shape[-1]) - degree[:, :, None] * adjacency * degree[:, None, :]
        values, vectors = torch.linalg.eigh(laplacian)
        slow = vectors[..., 1 : 1 + self.vectors]
        gram = slow @ slow.mT
        diagonal = gram.diagonal(dim1=-2, dim2=-1)
        distance = diagonal[:, :, None] + diagonal[:, None, :] - 2 * gram
        return self.lift(distance[..., None])[..., 0], slow, values


def main():
    torch.manual_seed(12)
    model = Spectral(vectors=2, width=16)
    compiled = torch.compile(model)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    for step in range(8):
        adjacency = rings(6, 10)
        score, slow, values = compiled(adjacency)
        loss = nn.functional.binary_cross_entropy_with_logits(score, adjacency)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 3 == 1:
            lengths = slow.detach().square().sum(1).mean().item()
            print(f"step {step}: {loss.item():.4f}, gap {values[0, 1].item():.4f}, length {lengths:.4f}")


main()
