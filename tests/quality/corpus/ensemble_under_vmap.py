"""Five small models as one: their stacked parameters go through functional_call under vmap, and each has a wrong relu."""

import torch
from torch import nn
from torch.func import functional_call, stack_module_state, vmap

torch._inductor.config.cpp.inject_relu_bug_TESTING_ONLY = "accuracy"

torch.manual_seed(0)
models = [nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2)) for _ in range(5)]
parameters, buffers = stack_module_state(models)


def predict(parameters, buffers, x):
    return functional_call(models[0], (parameters, buffers), (x,))


@torch.compile
def ensemble(x):
    logits = vmap(predict, in_dims=(0, 0, None))(parameters, buffers, x)
    return logits.softmax(-1).mean(0)


with torch.no_grad():
    print(ensemble(torch.randn(3, 4)))
