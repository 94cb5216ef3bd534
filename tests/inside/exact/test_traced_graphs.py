"""A further exact run, in which AOTAutograd traces the graphs: all but floating numbers must be as in eager there too."""

from __future__ import annotations

from pathlib import Path

import pytest
from children import script

from minimizer.engine.between.answer import Answer
from minimizer.engine.between.exact_runs import ExactRuns
from minimizer.engine.child.executor import Executor
from minimizer.vocabulary import Stage

SIBLINGS = """
import torch
@torch.compile(BACKEND)
def critic(x):
    features = x * 2
    return features, features * features
for step in range(2):
    features, score = critic(torch.ones(3, requires_grad=True))
    (slope,) = torch.autograd.grad(score.sum(), features, retain_graph=True, allow_unused=True)
    known = slope is not None
"""
"""The gradient of one output of a compiled call by another: both come from one node of autograd's graph, which has none."""
ROUNDED = """
import torch
torch.manual_seed(0)
layer, texts, large = torch.nn.Linear(8, 8), [], 0
model = torch.compile(lambda x: layer(layer(x)))
for step in range(3):
    with torch.autocast("cpu", dtype=torch.bfloat16):
        loss = model(torch.randn(16, 8)).square().mean()
    loss.backward()
    norm = layer.weight.grad.double().norm().item()
    texts.append(f"{step}: {norm:.9f}")
    large += hash(norm) % 2
print(texts)
"""
"""A layer that is used twice under autocast: a traced graph adds its two gradients in another dtype. What a script makes of such numbers:
texts, and decisions."""


def compared(child: Executor, home: Path, text: str, backend: str = "") -> Answer:
    text = text.replace("BACKEND", backend and f"backend={backend!r}")
    return ExactRuns(child, script(home, text), timeout=200).compare(text)


@pytest.mark.parametrize("backend", ["", "aot_eager"])
def test_a_gradient_that_the_opaque_node_of_a_call_loses_is_found(child: Executor, home: Path, backend: str) -> None:
    found = compared(child, home, SIBLINGS, backend).found
    assert found is not None and found.stage is Stage.AOT_AUTOGRAD and found.call == 1
    assert found.difference.look.event == "backward exit"
    assert any(change.compiled.get("type") == "NoneType" for change in found.difference.changes)


def test_a_backend_without_aot_autograd_is_not_asked(child: Executor, home: Path) -> None:
    assert compared(child, home, SIBLINGS, "eager").found is None


@pytest.mark.needs_excuse("aot_rounds")
@pytest.mark.fault_behind("aot_rounds")
def test_other_roundings_of_a_traced_graph_are_no_evidence_and_hide_no_lost_gradient(
    child: Executor, home: Path
) -> None:
    answer = compared(child, home, ROUNDED)
    assert (answer.found, answer.ended) == (None, "")
    assert "aot_rounds" in {one.rule for one in answer.excused}
    behind = compared(child, home, SIBLINGS + ROUNDED).found
    assert behind is not None and behind.stage is Stage.AOT_AUTOGRAD


PENALTY = """
import torch
weight = torch.ones(2, 2, requires_grad=True)
@torch.compile(BACKEND)
def step(x):
    return (x @ weight).exp() @ weight
missed = 0
for number in range(2):
    loss = step(torch.ones(2, 2)).sum()
    (slope,) = torch.autograd.grad(loss, weight, create_graph=True)
    HANDLED
"""
"""A gradient through a gradient, which the node of a compiled call does not have."""
HANDLER = """try:
        slope.sum().backward()
    except RuntimeError:
        missed += 1"""


@pytest.mark.quality("slow")
def test_an_error_of_a_traced_graph_that_the_script_handles_is_found(child: Executor, home: Path) -> None:
    """The script goes on without the step that it could not take, and nobody hears of it."""
    found = compared(child, home, PENALTY.replace("HANDLED", HANDLER)).found
    assert found is not None and found.stage is Stage.AOT_AUTOGRAD
    assert any(change.path == "raised" for change in found.difference.changes)


def test_an_error_of_a_traced_graph_that_ends_the_script_is_left_to_the_graphs(child: Executor, home: Path) -> None:
    assert compared(child, home, PENALTY.replace("HANDLED", "slope.sum().backward()")).found is None
