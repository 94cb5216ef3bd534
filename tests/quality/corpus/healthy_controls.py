"""Issues that are mended in this release, and constructs that must not confuse whoever looks at them."""

import contextlib

import torch
from torch.nn import functional

torch.manual_seed(0)


@torch.compile(dynamic=True)
def doubled_rows(x, y):  # 138908
    x = x + 10
    y[x] += y[x]


@torch.compile
def least_after_sine(x):  # 183894
    return x.sin_().t().argmin()


@torch.compile
def scattered():  # 108963
    index, source = torch.tensor([0]), torch.full((1,), 0.25, dtype=torch.double)
    total = torch.zeros(1, dtype=torch.double)
    return total.index_add(0, index, source, alpha=2.0) / 2, total.index_add(0, index, source)


@torch.compile
def statistics(x):  # 113167, 142839
    return functional.instance_norm(x), *torch.var_mean(x, dim=-1, keepdim=True)


@torch.compile
def mixed(a, b):  # 177630: both sides refuse
    return torch.bmm(a, b)


@torch.compile
def flattened(x, scale):
    return x.relu().flatten() * x.shape[0] * scale


@torch.compile(dynamic=True)
def branches(x):
    return torch.cond(x.sum() > 0, lambda x: x.sin() * 2, lambda x: x.cos(), (x,))


@torch.compile
def transforms(x, t):
    primal, tangent = torch.func.jvp(torch.sin, (x,), (t,))
    return primal, tangent, torch.func.grad(lambda a: a.sin().sum())(x), torch.vmap(lambda a: a.cumsum(0))(x)


@torch.compile
def regions(x):
    with torch.autocast("cpu", dtype=torch.bfloat16):
        y = x @ x
    with torch.no_grad():
        z = x @ x
    return torch.where(y.float() > 0, z, float("nan"))


doubled_rows(torch.full((1, 2), -10), torch.randn(2, 32))
least_after_sine(torch.randn(4, 6))
scattered()
statistics(torch.randn(2, 3, 16, 16))
with contextlib.suppress(RuntimeError):
    mixed(torch.ones(2, 3, 4, dtype=torch.float16), torch.ones(2, 4, 3))
for rows in (3, 5, 7):
    flattened(torch.randn(rows, 4), 0.5 * rows)
    branches(torch.randn(rows, 4))
transforms(torch.randn(3, 4), torch.ones(3, 4))
regions(torch.randn(4, 4, requires_grad=True))
print("all well")
