"""The script hides the failure: it catches whatever compiling raises and goes on in eager."""

import torch
import torch._inductor.config as inductor_config

inductor_config.cpp.inject_relu_bug_TESTING_ONLY = "compile_error"


def f(x, w):
    h = torch.nn.functional.gelu(x @ w)
    return torch.softmax(torch.relu(h) @ w.T, -1)


torch.manual_seed(0)
x, w = torch.randn(4, 8), torch.randn(8, 8)
try:
    out = torch.compile(f)(x, w)
except Exception:
    out = f(x, w)
print(out.shape)
