"""Tensor subclasses: whether Dynamo has already applied their ``__torch_function__`` to a graph, or leaves it to the tensors."""

from __future__ import annotations

from pathlib import Path

from children import script, survey
from surveyed import RELU_BUG, finished, held

from minimizer.engine.child.executor import Executor

WEIGHT_IN_EIGHT_BITS = """
import torch
from torch import nn
from torch.utils._pytree import tree_map_only

class Int8(torch.Tensor):
    \"\"\"A weight in eight bits, as quantization libraries keep it: it has a linear layer of its own, and hardly another operator.\"\"\"

    @staticmethod
    def __new__(cls, bits, scale):
        return torch.Tensor._make_wrapper_subclass(cls, bits.shape, dtype=scale.dtype)

    def __init__(self, bits, scale):
        self.bits, self.scale = bits, scale

    def __tensor_flatten__(self):
        return ["bits", "scale"], None

    @classmethod
    def __tensor_unflatten__(cls, parts, context, size, stride):
        return cls(parts["bits"], parts["scale"])

    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        if function is nn.functional.linear:
            x, weight, bias = args
            return nn.functional.linear(x, weight.bits.to(x.dtype)) * weight.scale + bias
        with torch._C.DisableTorchFunctionSubclass():
            return function(*args, **(kwargs or {}))

    @classmethod
    def __torch_dispatch__(cls, function, types, args=(), kwargs=None):
        if function in (torch.ops.aten.detach.default, torch.ops.aten.clone.default):
            return cls(function(args[0].bits), function(args[0].scale))
        raise NotImplementedError(f"Int8 has no {function}")

layer = nn.Linear(4, 3)
most = layer.weight.detach().abs().amax(1)
weight = Int8((layer.weight.detach() / most[:, None] * 127).round().to(torch.int8), most / 127)
layer.weight = nn.Parameter(weight, requires_grad=False)
"""
CALLED = "with torch.no_grad():\n    for size in (2, 5):\n        torch.compile(nn.Sequential(layer, nn.ReLU()))(torch.randn(size, 4))\n"
INLINED = """
import torch

class Doubled(torch.Tensor):
    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        found = super().__torch_function__(function, types, args, kwargs or {})
        return found * 2 if function is torch.sin else found

f = torch.compile(lambda x: torch.sin(x))
f(torch.ones(2).as_subclass(Doubled))
"""


def test_calls_with_a_weight_that_has_its_own_linear_layer_are_compared(child: Executor, home: Path) -> None:
    found = finished(survey(child, script(home, WEIGHT_IN_EIGHT_BITS + CALLED)))
    assert (found.checked.calls, found.checked.calls_made, found.checked.not_compared) == (2, 2, [])


def test_a_fault_behind_such_a_weight_is_seen(child: Executor, home: Path) -> None:
    found = survey(child, script(home, WEIGHT_IN_EIGHT_BITS + RELU_BUG.format("accuracy") + CALLED))
    assert held(found).failure.kind == "wrong_output"


def test_what_dynamo_has_applied_to_a_graph_is_not_applied_again(child: Executor, home: Path) -> None:
    found = finished(survey(child, script(home, INLINED)))
    assert (found.checked.calls, found.checked.not_compared) == (1, [])
