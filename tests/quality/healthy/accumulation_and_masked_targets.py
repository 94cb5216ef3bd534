"""Gradient accumulation, bf16 autocast, GradScaler, EMA of the weights, checkpointing, NaN-masked targets, hooks."""

import copy

import torch
import torch.nn as nn
from torch.utils.checkpoint import checkpoint


class Residual(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.norm = nn.LayerNorm(d)
        self.up, self.down = nn.Linear(d, 2 * d), nn.Linear(2 * d, d)
        self.drop = nn.Dropout(0.1)

    def forward(self, x):
        return x + self.drop(self.down(torch.nn.functional.gelu(self.up(self.norm(x)))))


class Net(nn.Module):
    def __init__(self, d=16, n=3):
        super().__init__()
        self.inp = nn.Linear(7, d)
        self.blocks = nn.ModuleList(Residual(d) for _ in range(n))
        self.out = nn.Linear(d, 5)

    def forward(self, x):
        h = self.inp(x + 0.01 * torch.randn_like(x))
        for b in self.blocks:
            h = checkpoint(b, h, use_reentrant=False)
        return self.out(h)


def masked_mse(pred, target):
    seen = ~torch.isnan(target)
    diff = torch.where(seen, pred.float() - target.nan_to_num(), 0.0)
    return diff.square().sum() / seen.sum().clamp(min=1)


@torch.no_grad()
def update_ema(ema, model, decay):
    torch._foreach_lerp_(list(ema.parameters()), list(model.parameters()), 1 - decay)


def main():
    torch.manual_seed(1)
    model = Net()
    ema = copy.deepcopy(model)
    model.inp.weight.register_hook(lambda g: g.clamp(-1, 1))
    model.compile()
    ema_step = torch.compile(update_ema)
    opt = torch.optim.AdamW(model.parameters(), 1e-3, fused=False)
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
    for step in range(4):
        for _ in range(2):
            x = torch.randn(9, 7)
            y = torch.randn(9, 5)
            y[torch.rand(9, 5) < 0.4] = float("nan")
            with torch.autocast("cpu", dtype=torch.bfloat16):
                loss = masked_mse(model(x), y) / 2
            scaler.scale(loss).backward()
        scaler.unscale_(opt)
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(opt)
        scaler.update()
        opt.zero_grad(set_to_none=True)
        ema_step(ema, model, 0.99)
        print(step, loss.item(), norm.item(), scaler.get_scale())


if __name__ == "__main__":
    main()
