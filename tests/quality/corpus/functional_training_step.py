"""A whole training step as one function: torch.func.grad_and_value inside of what is compiled, and the update after it."""

import torch
import torch._inductor.config as inductor_config

inductor_config.cpp.inject_log1p_bug_TESTING_ONLY = "accuracy"


def loss(weight, bias, x, y):
    rate = torch.nn.functional.softplus(x @ weight + bias)
    return (torch.log1p(rate) - torch.log1p(y)).square().mean()


@torch.compile
def step(weight, bias, x, y):
    (d_weight, d_bias), value = torch.func.grad_and_value(loss, argnums=(0, 1))(weight, bias, x, y)
    return weight - 0.1 * d_weight, bias - 0.1 * d_bias, value


torch.manual_seed(0)
weight, bias = torch.randn(6, 1), torch.zeros(1)
x, y = torch.randn(16, 6), torch.rand(16, 1) * 5
for _ in range(3):
    weight, bias, value = step(weight, bias, x, y)
    print(value.item())
