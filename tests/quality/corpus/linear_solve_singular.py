"""A decomposition that was replaced gives an answer for a singular matrix, where eager raises."""

import torch
from torch._inductor.decomposition import decompositions

aten = torch.ops.aten


def inverse(matrix, *, check_errors=False):
    adjugate = torch.stack([torch.stack([matrix[1, 1], -matrix[0, 1]]), torch.stack([-matrix[1, 0], matrix[0, 0]])])
    determinant = matrix[0, 0] * matrix[1, 1] - matrix[0, 1] * matrix[1, 0]
    return adjugate / (determinant + 1e-30), torch.zeros((), dtype=torch.int32)


decompositions[aten.linalg_inv_ex.default] = inverse


def whiten(x, covariance):
    return x @ torch.linalg.inv(covariance * 2)


x, covariance = torch.ones(3, 2), torch.ones(2, 2)
try:
    torch.compile(whiten)(x, covariance)
except torch.linalg.LinAlgError:
    print("refused")
else:
    raise AssertionError("a singular matrix has no inverse")
