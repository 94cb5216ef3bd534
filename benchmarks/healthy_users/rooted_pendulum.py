"""Newton's method by jacrev, hessian and jvp: quadratic convergence until only rounding is left, and a loop that stops by .item()."""

import torch
from torch.func import hessian, jacrev, jvp, vmap


def height(angles, lengths, masses):
    """Energy of a hanging chain of rods whose ends are pulled by springs."""
    x = (lengths * angles.sin()).cumsum(-1)
    y = -(lengths * angles.cos()).cumsum(-1)
    return (masses * y).sum() + 3 * (x[-1] - 1.5).square() + 0.1 * angles.square().sum()


@torch.compile
def newton(angles, lengths, masses):
    slope = jacrev(height)(angles, lengths, masses)
    bend = hessian(height)(angles, lengths, masses)
    factor, info = torch.linalg.cholesky_ex(bend + 1e-3 * torch.eye(len(angles), dtype=angles.dtype))
    step = torch.cholesky_solve(-slope[:, None], factor)[:, 0]
    return angles + step, slope.norm(), info


@torch.compile
def softness(angles, lengths, masses, pulls):
    """How the energy changes to the second order along many pulls at once."""

    def along(pull):
        def slope(a):
            return jvp(lambda b: height(b, lengths, masses), (a,), (pull,))[1]

        return jvp(slope, (angles,), (pull,))

    return vmap(along)(pulls)


def hang(rods, dtype, tolerance):
    torch.manual_seed(26)
    lengths = 0.5 + torch.rand(rods).to(dtype)
    masses = torch.ones(rods, dtype=dtype)
    angles = 0.3 * torch.ones(rods, dtype=dtype)
    turns, rest, best = 0, float("inf"), float("inf")
    while rest > tolerance and turns < 30:
        angles, norm, info = newton(angles, lengths, masses)
        rest, turns = norm.item(), turns + 1
        if rest >= best:  # nothing but rounding is left
            break
        best = min(best, rest)
    slopes, bends = softness(angles, lengths, masses, torch.eye(rods, dtype=dtype))
    print(
        f"{dtype}: {turns} turns, rest {rest:.1e}, slopes {slopes.norm():.1e}, stiffest {bends.max():.4f}, info {int(info)}"
    )
    return angles


def main():
    single = hang(5, torch.float32, 1e-8)
    double = hang(5, torch.float64, 1e-15)
    print(f"apart {(single - double).abs().max():.1e}", [f"{a:.4f}" for a in double.tolist()])


main()
