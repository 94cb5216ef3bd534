"""A custom operator and autocast around the fault; the joint graph carries gradients. The script compares nothing."""

import torch
import torch._inductor.config as inductor_config

inductor_config.cpp.inject_relu_bug_TESTING_ONLY = "accuracy"


@torch.library.custom_op("corpus::scale", mutates_args=())
def scale(x: torch.Tensor, k: float) -> torch.Tensor:
    return x * k


@scale.register_fake
def _(x, k):
    return torch.empty_like(x)


scale.register_autograd(lambda context, gradient: (gradient * 2.0, None))


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = torch.nn.Linear(8, 8), torch.nn.Linear(8, 8)

    def forward(self, x):
        x = torch.sigmoid(torch.ops.corpus.scale(self.first(x), 2.0))
        with torch.autocast("cpu", dtype=torch.bfloat16):
            x = self.second(x)
        return torch.relu(x.float() - 1.0) + 1


torch.manual_seed(0)
torch.compile(Net())(torch.randn(4, 8)).sum().backward()
