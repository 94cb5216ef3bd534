"""Sound interval bounds for a bfloat16 layer: after each step the bounds are widened to the next number outward.

Real fault of torch 2.13 and 2.14 on CPU: compiled ``nextafter`` of bfloat16 gives back the number it was given, so the bounds are
not widened at all. The bounds must be exact, so the script compares without a tolerance. A float64 run would side with
the wrong answer here.
"""

import torch
import torch.nn as nn


class IntervalLinear(nn.Module):
    def __init__(self, inputs, outputs):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(outputs, inputs).bfloat16() / inputs**0.5)

    def forward(self, lower, upper):
        center, radius = (lower + upper) / 2, (upper - lower) / 2
        middle, reach = center @ self.weight.T, radius @ self.weight.abs().T
        outward = torch.full_like(middle, torch.inf)
        return torch.nextafter(middle - reach, -outward), torch.nextafter(middle + reach, outward)


torch.manual_seed(0)
layers = nn.Sequential(IntervalLinear(16, 16), IntervalLinear(16, 8))


def bounds(lower, upper):
    for layer in layers:
        lower, upper = layer(lower, upper)
    return lower, upper


x = torch.linspace(-2, 2, 4 * 16).reshape(4, 16).bfloat16()
with torch.no_grad():
    expected = bounds(x - 0.125, x + 0.125)
    actual = torch.compile(bounds)(x - 0.125, x + 0.125)
torch.testing.assert_close(actual, expected, rtol=0, atol=0)
