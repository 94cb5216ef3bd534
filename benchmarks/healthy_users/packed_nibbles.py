"""A model whose weights are stored in four bits, two to a byte, and calibrated with fake quantisation that rounds at ties."""

import torch
from torch import nn


def pack(levels):
    """Levels from 0 to 15 as bytes."""
    low, high = levels[..., ::2], levels[..., 1::2]
    return (low | (high << 4)).to(torch.uint8)


def unpack(packed):
    return torch.stack([packed & 15, packed >> 4], -1).flatten(-2)


class Packed(nn.Module):
    def __init__(self, linear, group):
        super().__init__()
        weight = linear.weight.detach().unflatten(-1, (-1, group))
        low, high = weight.amin(-1, keepdim=True), weight.amax(-1, keepdim=True)
        self.register_buffer("scale", ((high - low) / 15).bfloat16())
        self.register_buffer("zero", low.bfloat16())
        levels = ((weight - self.zero.float()) / self.scale.float()).round().clamp(0, 15).int()
        self.register_buffer("packed", pack(levels.flatten(-2)))
        self.group, self.bias = group, linear.bias

    def forward(self, x):
        levels = unpack(self.packed).unflatten(-1, (-1, self.group)).to(x.dtype)
        weight = (levels * self.scale + self.zero).flatten(-2)
        return nn.functional.linear(x, weight, self.bias.to(x.dtype))


class Observed(nn.Module):
    """Activations as eight bits: a running range in buffers, then fake quantisation; inputs are multiples of halves, so many tie."""

    def __init__(self):
        super().__init__()
        self.register_buffer("low", torch.tensor(0.0))
        self.register_buffer("high", torch.tensor(1.0))

    def forward(self, x):
        if self.training:
            self.low.copy_(torch.minimum(self.low, x.detach().amin()))
            self.high.copy_(torch.maximum(self.high, x.detach().amax()))
        scale = (self.high - self.low) / 255
        zero = (-self.low / scale).round().clamp(0, 255).int()
        return torch.fake_quantize_per_tensor_affine(x, scale, zero, 0, 255)


def main():
    torch.manual_seed(43)
    model = nn.Sequential(Observed(), nn.Linear(16, 32), nn.ReLU(), Observed(), nn.Linear(32, 4))
    train = torch.compile(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, nesterov=True)
    rule = torch.randn(16, 4)
    for turn in range(12):
        x = torch.randint(-8, 9, (32, 16)) / 2
        loss = nn.functional.cross_entropy(train(x), (x @ rule).argmax(-1))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if turn % 4 == 3:
            print(f"turn {turn}: loss {loss.item():.4f}, range {model[3].high.item():.3f}")
    small = nn.Sequential(Packed(model[1], 8), nn.ReLU(), Packed(model[4], 8)).eval()
    serve = torch.compile(small, mode="max-autotune-no-cudagraphs")
    with torch.no_grad():
        x = torch.randint(-8, 9, (64, 16)) / 2
        answers = serve(x.bfloat16())
        agree = (answers.argmax(-1) == (x @ rule).argmax(-1)).float().mean()
    print(
        f"stored in {sum(layer.packed.numel() for layer in (small[0], small[2]))} bytes, right {agree.item():.3f}, largest {answers.abs().max().item():.2f}"
    )


main()
