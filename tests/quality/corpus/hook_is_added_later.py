"""A forward hook is added after the first call; the script has switched off the guard that would notice."""

import torch
from torch import nn

torch._dynamo.config.skip_nnmodule_hook_guards = True
torch._dynamo.config.inline_inbuilt_nn_modules = True

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 2))
fast = torch.compile(model)
x = torch.randn(3, 4)
torch.testing.assert_close(fast(x), model(x))

model[1].register_forward_hook(lambda module, args, output: output * 0.5)
torch.testing.assert_close(fast(x), model(x))
