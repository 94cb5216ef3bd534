"""Tensors so large that what is kept of them lies in files: faults are found, and right calls raise no alarm."""

from __future__ import annotations

from pathlib import Path

import pytest
from children import script, survey
from surveyed import finished, held

from minimizer.engine.child.executor import Executor

BACKEND = """
import torch
from functorch.compile import make_boxed_func
from torch._dynamo.backends.common import aot_autograd

def plain(graph, inputs):
    return make_boxed_func(graph.forward)

def off(graph, inputs):
    def run(*args):
        return [None if one is None else one * 1.001 for one in graph(*args)]
    return make_boxed_func(run)

def of_before(graph, inputs):
    kept = []
    def run(*args):
        kept.append(graph(*args))
        return kept[-2] if len(kept) > 1 else kept[-1]
    return make_boxed_func(run)

def unwritten(graph, inputs):
    return lambda *args: graph(*(arg.clone() for arg in args))
"""
TRAINING = """
torch.manual_seed(0)
w = torch.nn.Parameter(torch.randn(1024, 1024) / 32)
f = torch.compile(lambda w, x: torch.nn.functional.gelu(x @ w), backend=BACKWARD)
optimizer = torch.optim.SGD([w], lr=0.1)
for _ in range(3):
    f(w, torch.randn(16, 1024)).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()
"""
WRITING = """
x = torch.ones(1024, 1024)
f = torch.compile(lambda x: x.mul_(2).sum(), backend=FORWARD)
f(x)
f(x)
"""


def trained(backward: str) -> str:
    return BACKEND + TRAINING.replace("BACKWARD", f"aot_autograd(fw_compiler=plain, bw_compiler={backward})")


@pytest.mark.parametrize("backward", ["off", "of_before"])
def test_a_wrong_gradient_of_a_large_parameter_is_found(child: Executor, home: Path, backward: str) -> None:
    found = held(survey(child, script(home, trained(backward))))
    assert (found.failure.phase, found.failure.kind) == ("backward", "wrong_gradient")


@pytest.mark.parametrize("backward", ["plain", "inductor"])
def test_a_training_of_a_large_parameter_is_no_alarm(child: Executor, home: Path, backward: str) -> None:
    text = trained("plain") if backward == "plain" else BACKEND + TRAINING.replace("BACKWARD", repr(backward))
    answer = finished(survey(child, script(home, text)))
    assert answer.exception is None
    assert (answer.checked.calls, answer.checked.backward) == (3, 3)


def test_a_large_input_that_is_not_written_to_is_found(child: Executor, home: Path) -> None:
    found = held(survey(child, script(home, BACKEND + WRITING.replace("FORWARD", "unwritten"))))
    assert (found.failure.phase, found.failure.kind) == ("run", "wrong_output")


def test_a_large_input_that_is_written_to_is_no_alarm(child: Executor, home: Path) -> None:
    answer = finished(survey(child, script(home, BACKEND + WRITING.replace("FORWARD", "'inductor'"))))
    assert answer.exception is None
    assert answer.checked.calls == 2


def test_a_graph_that_gives_the_memory_of_a_large_input_back_and_takes_it_anew_is_compared(
    child: Executor, home: Path
) -> None:
    text = """
import torch

@torch.compile(backend="aot_eager")
def f(x, y):
    x.untyped_storage().resize_(0)
    x.untyped_storage().resize_(4 << 20)
    return x.copy_(y).sum()

f(torch.ones(1024, 1024), torch.ones(1024, 1024))
"""
    answer = finished(survey(child, script(home, text)))
    assert answer.exception is None
    assert answer.checked.calls == 1
