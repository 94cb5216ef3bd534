"""Compiled autograd: its graphs take a list that the call empties, hold operators of its own, and trace the hooks of the script."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from children import script, survey
from torch import Tensor, fx

from minimizer.engine.child.executor import Executor
from minimizer.engine.child.protocol import Finished
from minimizer.inside.graph.lifted import LiftedGraph
from minimizer.inside.graph.lowering import lower
from minimizer.inside.referee.call import Call

RELU_BUG = 'torch._inductor.config.cpp.inject_relu_bug_TESTING_ONLY = "accuracy"'


def finished(child: Executor, home: Path, text: str) -> Finished:
    found = survey(child, script(home, text))
    assert found.finished is not None, found.held.failure if found.held else found.log
    assert found.finished.exception is None
    assert found.finished.uncompared == []
    return found.finished


INSIDE = """
import torch
import torch.nn as nn

torch._dynamo.config.compiled_autograd = True
{bug}
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 3))
model[0].weight.register_hook(lambda g: torch.relu(g + 0.01) - 0.01)

@torch.compile
def step(x):
    loss = model(x).square().mean()
    loss.backward()
    return loss

for _ in range(3):
    step(torch.randn(4, 8))
"""


@pytest.mark.quality("slow")
def test_a_healthy_backward_is_compared_and_our_hooks_leave_no_trace_in_it(child: Executor, home: Path) -> None:
    found = finished(child, home, INSIDE.format(bug=""))
    # One graph forward, one backward for all three steps (the second has gradients to add to): a traced hook makes one for each.
    assert (found.checked.frames, found.checked.calls, found.checked.backward) == (3, 6, 3)


def test_a_fault_in_a_hook_is_held_with_the_whole_backward(child: Executor, home: Path) -> None:
    found = survey(child, script(home, INSIDE.format(bug=RELU_BUG)))
    assert found.held is not None, found.finished or found.log
    failure = found.held.failure
    assert (failure.graph, failure.phase, failure.kind) == (1, "run", "wrong_output")
    program = found.program("auto")
    assert program.level == "aot"
    (relu,) = [node for node in program.nodes if node.target == "torch.ops.aten.relu.default"]
    assert relu.source is not None and "register_hook" in relu.source[2]
    found.close()


AROUND = """
import torch
import torch.nn as nn
from torch._dynamo import compiled_autograd

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Linear(16, 3))
model[0].register_full_backward_hook(lambda module, inner, outer: None)

class Scale(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, by):
        ctx.by = by
        return x * by

    @staticmethod
    def backward(ctx, grad):
        return grad * ctx.by, None

def halve(parameter):
    parameter.grad.mul_(0.5)

model[2].weight.register_post_accumulate_grad_hook(halve)

@torch.compile
def hooked(x):
    h = model(x)
    h.register_hook(lambda g: g * 2)
    return h.square().mean()

with compiled_autograd._enable(torch.compile):
    for rows in (4, 5):
        loss = Scale.apply(model(torch.randn(rows, 8)), 0.5 * rows).sum()
        loss.backward(retain_graph=True)
        loss.backward()
    for _ in range(2):
        hooked(torch.randn(4, 8)).backward()
"""


@pytest.mark.quality("slow")
def test_hooks_of_all_kinds_and_gradients_that_add_up_are_no_alarm(child: Executor, home: Path) -> None:
    found = finished(child, home, AROUND)
    assert found.checked.calls >= 6
    assert any("passes hooks to compiled autograd" in note for note in found.notes)


CONVERTS = """
import torch
from torch import nn

torch._dynamo.config.compiled_autograd = True
torch.manual_seed(0)
first, second = nn.Linear(8, 8), nn.Linear(8, 2)

def announce(parameter):
    print("gradient")  # a graph break: what is known of the backward by then is returned, views of converted weights too

for parameter in second.parameters():
    parameter.register_post_accumulate_grad_hook(announce)

@torch.compile
def step(x):
    with torch.autocast("cpu", dtype=torch.bfloat16):
        loss = second(first(x).sin()).float().square().mean()
    loss.backward()

step(torch.randn(4, 8))
"""


@pytest.mark.quality("slow")
def test_a_conversion_of_a_weight_in_a_lowered_backward_is_no_alarm(child: Executor, home: Path) -> None:
    assert finished(child, home, CONVERTS).checked.calls > 2


# the graph itself ---------------------------------------------------------------------------------------------------


def boxed(function: Any, length: int) -> fx.GraphModule:
    module = fx.symbolic_trace(function)
    module.graph.find_nodes(op="placeholder")[0].meta["example_value"] = [torch.ones(2)] * length
    return module


def test_the_elements_of_a_list_are_inputs_of_their_own() -> None:
    def function(tensors: Any, y: Tensor) -> Any:
        return tensors[1] + y, torch.stack(tensors)

    lifted = LiftedGraph(boxed(function, 2))
    args = [[torch.ones(2), torch.zeros(2)], torch.full((2,), 3.0)]
    inputs = lifted.inputs(args)
    args[0].clear()  # type: ignore[attr-defined]
    assert lifted.is_backward
    total, stacked = lifted.module(*inputs)
    assert total.tolist() == [3.0, 3.0]
    assert stacked.tolist() == [[1.0, 1.0], [0.0, 0.0]]


def test_compiled_code_is_given_a_list_of_its_own_each_time() -> None:
    def empties(tensors: list[Tensor], y: Tensor) -> Tensor:
        first = tensors[0]
        tensors.clear()
        return first + y

    lifted = LiftedGraph(boxed(lambda tensors, y: tensors[0] + y, 1))
    inputs = lifted.inputs([[torch.ones(2)], torch.ones(2)])
    call = Call.now(lifted.module, inputs)
    for _ in range(2):
        side = lifted.run(call, empties)
        assert side.result.tolist() == [2.0, 2.0]
        assert len(side.inputs) == 2


def test_a_graph_that_takes_no_list_is_no_backward() -> None:
    assert not LiftedGraph(fx.symbolic_trace(lambda x: x + 1)).is_backward


@pytest.mark.parametrize("requires_grad", [False, True])
def test_lowering_writes_to_no_input(requires_grad: bool) -> None:
    value = torch.zeros(2, requires_grad=requires_grad)
    with torch.no_grad():
        module, inputs = lower(fx.symbolic_trace(lambda x: x.add_(1)), [value])
    assert value.tolist() == [0.0, 0.0]
    assert inputs[0].tolist() == [0.0, 0.0]
    assert module(*inputs)[0].tolist() == [1.0, 1.0]
