"""A variational autoencoder whose evaluation must not move the training's random numbers: fork_rng, saved states, Bernoulli draws, SWA."""

import torch
from torch import nn
from torch.distributions import Bernoulli, Normal, kl_divergence
from torch.optim.swa_utils import SWALR, AveragedModel


class Autoencoder(nn.Module):
    def __init__(self, pixels, width, latent):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(pixels, width), nn.ELU(), nn.Linear(width, 2 * latent))
        self.decoder = nn.Sequential(nn.Linear(latent, width), nn.ELU(), nn.Linear(width, pixels))
        self.latent = latent

    def forward(self, x):
        mean, log_scale = self.encoder(x).chunk(2, -1)
        posterior = Normal(mean, log_scale.clamp(-6, 4).exp())
        z = posterior.rsample()
        logits = self.decoder(z)
        fit = nn.functional.binary_cross_entropy_with_logits(logits, x, reduction="none").sum(-1)
        apart = kl_divergence(posterior, Normal(torch.zeros_like(mean), 1.0)).sum(-1)
        return {"loss": (fit + apart).mean(), "fit": fit.detach(), "kl": apart.detach()}


@torch.compile
def dream(model, count: int):
    """Pictures from nothing."""
    z = torch.randn(count, model.latent)
    return Bernoulli(logits=model.decoder(z)).sample()


def bars(count):
    rows = torch.rand(count, 6, 1) < 0.3
    columns = torch.rand(count, 1, 6) < 0.3
    return (rows | columns).float().flatten(1)


def main():
    torch.manual_seed(17)
    model = Autoencoder(pixels=36, width=24, latent=3)
    averaged = AveragedModel(model)
    step = torch.compile(model)
    optimizer = torch.optim.NAdam(model.parameters(), lr=1e-2)
    swa = SWALR(optimizer, swa_lr=5e-3, anneal_epochs=2)
    for epoch in range(8):
        out = step(bars(64))
        optimizer.zero_grad()
        out["loss"].backward()
        nn.utils.clip_grad_value_(model.parameters(), 0.5)
        optimizer.step()
        if epoch >= 4:
            averaged.update_parameters(model)
            swa.step()
        before = torch.get_rng_state()
        with torch.random.fork_rng(), torch.no_grad():
            torch.manual_seed(99)
            seen = dream(averaged.module, 32)
        unmoved = torch.equal(before, torch.get_rng_state())
        if epoch % 3 == 1:
            parts = f"fit {out['fit'].mean():.2f}, kl {out['kl'].mean():.3f}"
            print(f"epoch {epoch}: {parts}, ink {seen.mean():.3f}, dice unmoved {unmoved}")


main()
