"""Lifetimes of machines in float64: special functions in their tails, censored Weibull and Beta models, L-BFGS with a closure, EM."""

import torch
from torch import special


@torch.compile
def negative_log_likelihood(log_shape, log_scale, times, broken):
    """Weibull with censoring; early times make powers of nearly nothing."""
    shape, scale = log_shape.exp(), log_scale.exp()
    ratio = times / scale
    hazard = log_shape - log_scale + (shape - 1) * ratio.log()
    return -(special.xlogy(broken, hazard.exp()) - ratio.pow(shape)).sum() / len(times)


@torch.compile
def moments(a, b, x):
    """Beta log-density, its entropy, and tails of a normal that ordinary formulas lose."""
    log_beta = torch.lgamma(a) + torch.lgamma(b) - torch.lgamma(a + b)
    density = special.xlogy(a - 1, x) + special.xlog1py(b - 1, -x) - log_beta
    total = a + b
    entropy = (
        log_beta - (a - 1) * special.digamma(a) - (b - 1) * special.digamma(b) + (total - 2) * special.digamma(total)
    )
    tails = special.log_ndtr(-40 * x), special.erfcx(30 * x).log(), special.i0e(50 * x)
    gamma = special.gammainc(a, 3 * x) + special.gammaincc(a, 3 * x) - 1
    return density, entropy, *tails, gamma


@torch.compile
def share(x, weight, mean, spread):
    """One turn of EM on a mixture of two Student-like heaps."""
    log = weight.log() - spread.log() - 2.5 * torch.log1p(((x[:, None] - mean) / spread).square() / 4)
    part = (log - log.logsumexp(1, keepdim=True)).exp()
    size = part.sum(0)
    new_mean = (part * x[:, None]).sum(0) / size
    new_spread = ((part * (x[:, None] - new_mean).square()).sum(0) / size).sqrt()
    return size / len(x), new_mean, new_spread, log.logsumexp(1).mean()


def main():
    torch.manual_seed(72)
    torch.set_default_dtype(torch.float64)
    times = 3 * torch.empty(80).exponential_().pow(1 / 1.7)
    broken, times = (times < 4).double(), times.clamp(1e-12, 4)
    parameters = [torch.zeros((), requires_grad=True) for _ in range(2)]
    optimizer = torch.optim.LBFGS(parameters, lr=0.5, max_iter=8, line_search_fn="strong_wolfe")

    def closure():
        optimizer.zero_grad()
        loss = negative_log_likelihood(*parameters, times, broken)
        loss.backward()
        return loss

    for _ in range(3):
        loss = optimizer.step(closure)
    print(f"loss {loss.item():.6f}, shape {parameters[0].exp().item():.4f}, scale {parameters[1].exp().item():.4f}")
    x = torch.linspace(0, 1, 21)
    density, entropy, *tails, gamma = moments(torch.full((21,), 2.5), torch.full((21,), 0.7), x)
    print(f"density {density[10]:.5f}, at the ends {density[0]:.1f} {density[-1]:.1f}, entropy {entropy[0]:.5f}")
    print("tails", [f"{tail[-1]:.4f}" for tail in tails], f"rest {gamma.abs().max():.1e}")
    x = torch.cat([torch.randn(60) - 2, 0.5 * torch.randn(40) + 2])
    state = torch.tensor([0.5, 0.5]), torch.tensor([-1.0, 1.0]), torch.ones(2)
    before, gain, turns = -torch.inf, torch.inf, 0
    while gain > 1e-9 and turns < 60:
        *state, fit = share(x, *state)
        gain, before, turns = fit.item() - before, fit.item(), turns + 1
    print(f"heaps at {state[1].tolist()}, turns {turns}")


main()
