"""Linear algebra in double precision."""

import torch

torch.manual_seed(0)


@torch.compile
def solved(a, b):
    a = a @ a.mT + 8 * torch.eye(8, dtype=a.dtype)
    return torch.linalg.solve(a, b), torch.linalg.cholesky(a), torch.linalg.slogdet(a)[1], torch.linalg.eigvalsh(a)


solved(torch.randn(4, 8, 8, dtype=torch.float64), torch.randn(4, 8, 2, dtype=torch.float64))
