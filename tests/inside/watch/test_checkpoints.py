"""Compiled blocks under a checkpoint of the script's, which makes their calls once more while a backward runs, and ends them early."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from children import script, survey
from surveyed import finished, held
from torch import Tensor

from minimizer.engine.child.executor import Executor
from minimizer.inside.values import saved_hooks, snapshot

CHECKPOINTED = """
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

torch._inductor.config.cpp.inject_relu_bug_TESTING_ONLY = {fault}
{head}
torch.manual_seed(0)
net = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 8), nn.Tanh())
block = torch.compile(lambda x: net(x){communicates})
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for _ in range(3):
    x = torch.randn(4, 8, requires_grad=True)
    checkpoint(block, x, use_reentrant=False).square().sum().backward()
    optimizer.step()
    optimizer.zero_grad()
"""
ALONE = """
import torch.distributed as dist
from torch.distributed._functional_collectives import all_reduce

dist.init_process_group("gloo", rank=0, world_size=1, store=dist.HashStore())
"""
FORMS = {
    "plain": {"head": "", "communicates": ""},
    "ranks": {"head": ALONE, "communicates": ' + all_reduce(x.detach(), "sum", dist.group.WORLD)'},
}


@pytest.mark.parametrize("form", FORMS)
def test_a_checkpoint_around_compiled_code_does_not_see_our_runs(child: Executor, home: Path, form: str) -> None:
    """It would take what these save for what the script's call saves. The call that it ends early is no failure."""
    found = finished(survey(child, script(home, CHECKPOINTED.format(fault=None, **FORMS[form]))))
    seen = found.checked
    assert (found.exception, found.suspects, found.missing) == (None, [], [])
    assert seen.not_compared == ["3 calls of graph 0: a checkpoint ends it before it returns"]
    assert (seen.calls_made, seen.calls, seen.backward) == (6, 3, 3)
    wrong = held(survey(child, script(home, CHECKPOINTED.format(fault='"accuracy"', **FORMS[form]))))
    assert wrong.failure.kind == "wrong_output"


def test_hooks_on_saved_tensors_are_left_and_had_again() -> None:
    seen: list[str] = []

    def hooks(name: str) -> torch.autograd.graph.saved_tensors_hooks:
        def pack(value: Tensor) -> Tensor:
            seen.append(name)
            return value

        return torch.autograd.graph.saved_tensors_hooks(pack, lambda value: value)

    x = torch.ones(2, requires_grad=True)
    with hooks("outer"), hooks("inner"):
        with snapshot.global_state().applied():
            x.exp()
        assert seen == []
        with saved_hooks.left(), hooks("ours"):
            x.exp()
        x.exp()
    with hooks("outer"):
        x.exp()
    assert seen == ["ours", "inner", "outer"]


def test_where_hooks_on_saved_tensors_are_forbidden_they_stay() -> None:
    """None could be put back."""
    autograd = torch._C._autograd
    with torch.autograd.graph.saved_tensors_hooks(lambda value: value, lambda value: value):
        autograd._saved_tensors_hooks_disable("not here", False)  # as `torch.func` does
        try:
            with saved_hooks.left():
                assert autograd._top_saved_tensors_default_hooks(True) is not None
        finally:
            autograd._saved_tensors_hooks_enable()
