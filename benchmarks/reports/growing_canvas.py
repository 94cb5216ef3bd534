"""A picture is fitted from coarse to fine: the canvas is enlarged by a factor that grows from stage to stage."""

import torch
import torch.nn.functional as F


@torch.compile
def enlarge(canvas, zoom):
    """A sharper and larger copy of the canvas."""
    return F.interpolate(canvas * zoom, scale_factor=zoom * 2.0, mode="bilinear", align_corners=False)


def fit(canvas, target, steps):
    """A few steps of gradient descent of the canvas towards the target, at the canvas's size."""
    canvas = canvas.detach().requires_grad_()
    goal = F.adaptive_avg_pool2d(target, canvas.shape[-2:])
    for _ in range(steps):
        loss = F.mse_loss(canvas, goal)
        (slope,) = torch.autograd.grad(loss, canvas)
        canvas = (canvas - 20.0 * slope).detach().requires_grad_()
    return canvas.detach(), loss.item()


torch.manual_seed(9)
target = torch.rand(1, 1, 64, 64)
start = torch.rand(1, 1, 8, 8)
pixels = 0
for zoom in (0.5, 0.75, 1.0, 1.5, 2.0):
    canvas = enlarge(start, zoom)
    canvas, loss = fit(canvas, target, steps=5)
    pixels += canvas.numel()
    print(f"zoom {zoom}: canvas {tuple(canvas.shape[-2:])}  loss {loss:.4f}")
print("pixels", pixels)
