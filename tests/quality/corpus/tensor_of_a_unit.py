"""Tensors that know their unit: a subclass goes in and comes out, and what is computed in between has a wrong relu."""

import torch

torch._inductor.config.cpp.inject_relu_bug_TESTING_ONLY = "accuracy"


class Quantity(torch.Tensor):
    """A tensor with a unit, which its operators keep."""

    unit = "m"

    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        return super().__torch_function__(function, types, args, kwargs or {})


@torch.compile
def clearance(distance, margin):
    gap = distance - margin
    return torch.relu(gap).sum(-1) / (1 + gap.abs().sum(-1))


torch.manual_seed(0)
distance = torch.randn(6, 3).as_subclass(Quantity)
print(clearance(distance, torch.rand(3)))
