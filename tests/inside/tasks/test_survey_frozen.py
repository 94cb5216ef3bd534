"""Graphs whose parameters Inductor takes for constants (``freezing``): a trial has to compile them so, or a fault of these does not show."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from children import script, survey
from surveyed import finished, held

from minimizer.engine.child.executor import Executor
from minimizer.engine.oracle.oracle import Oracle
from minimizer.inside.tasks.frozen import compiled

FOLD = """
def fold(graph):
    for node in graph.find_nodes(op="call_function", target=torch.ops.aten.add.Tensor):
        if any(getattr(arg, "op", "") == "get_attr" for arg in node.args):
            node.target = torch.ops.aten.sub.Tensor

torch._inductor.config.post_grad_custom_post_pass = fold
"""
SERVED = """
import torch
import torch._inductor.config
torch._inductor.config.freezing = True

class Shift(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.shift = torch.nn.Parameter(torch.ones(3))
        self.register_buffer("order", torch.tensor([2, 0, 1]))

    def forward(self, x):
        return torch.tanh(x + self.shift)[self.order]

model = Shift().eval()
serve = torch.compile(model)
with torch.no_grad():
    for call in range(2):
        serve(torch.full((3,), 0.5))
"""
FOLDED = SERVED.replace("model = ", f"{FOLD}model = ")


def test_a_fault_of_constants_shows_in_a_trial_that_freezes_them(child: Executor, home: Path) -> None:
    found = survey(child, script(home, FOLDED))
    program = found.program("dynamo")
    program = replace(program, setup=(*program.setup, FOLD))
    as_arguments = replace(program, inputs=tuple(replace(item, frozen=False) for item in program.inputs))
    outcomes = Oracle(child, found, ()).judge([program, as_arguments])
    assert [item.frozen for item in program.inputs] == [False, True, True]
    assert [outcome.ending for outcome in outcomes] == ["different", "same"]
    lowered = found.program("aot")
    assert [item.frozen for item in lowered.inputs] == [False, True, True]
    found.close()


@pytest.mark.parametrize("grad", [False, True], ids=["constants", "with gradients nothing is frozen"])
def test_what_is_frozen_and_not_changed_is_no_fault(child: Executor, home: Path, grad: bool) -> None:
    text = SERVED if not grad else FOLDED.replace("torch.no_grad()", "torch.enable_grad()")
    answer = finished(survey(child, script(home, text)))
    assert (answer.exception, answer.checked.calls) == (None, 2)


def test_a_constant_that_is_changed_in_place_is_wrong_in_the_next_call(child: Executor, home: Path) -> None:
    answer = held(survey(child, script(home, f"{SERVED}        model.shift.zero_()\n")))
    assert (answer.failure.kind, answer.failure.call) == ("wrong_output", 1)


def test_what_a_call_writes_to_a_constant_is_written_to_its_argument() -> None:
    """Each run of a trial has arguments of its own, and looks at what became of them."""
    run = compiled(lambda x, y: y.add_(x), [1], {"backend": "eager"})
    arguments = [torch.zeros(2), torch.zeros(2)]
    with torch.no_grad():
        for y in arguments:
            run(torch.ones(2), y)
    assert torch.equal(arguments[0], torch.full((2,), 1.0)) and torch.equal(arguments[1], torch.full((2,), 1.0))
