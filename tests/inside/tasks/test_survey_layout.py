"""Calls whose values are right and whose memory layout is another: they rank below every other failure, and hide none."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from children import script, survey
from surveyed import BACKENDS, RELU_BUG, finished, held, targets

from minimizer.engine.child.executor import Executor
from minimizer.engine.survey.cases import Case, Settled
from minimizer.engine.survey.runs import Surveys
from minimizer.engine.survey.triage import Triage
from minimizer.vocabulary import Kind, Status

CACHE = """
import torch

class Attention(torch.nn.Module):
    def forward(self, x, past):
        # The first step of a cache, as in transformers: nothing, and keys with their heads moved forward.
        return torch.cat([past, x.view(2, -1, 4, 4).transpose(1, 2)], dim=-2)

attention = torch.compile(Attention())
kept = attention(torch.arange(160.0).view(2, 5, 16), torch.tensor([]))
"""
FAULT = (
    RELU_BUG.format("accuracy")
    + "score = torch.compile(lambda x: torch.relu(x) * 2)\nscore(torch.tensor([-1.0, 2.0]))\n"
)
GRADIENT = """
def backend(gm, example):
    doubled = zero_gradient(gm, example)
    return lambda *args: [out.transpose(0, 1).contiguous().transpose(0, 1) for out in doubled(*args)]

x = torch.ones(2, 3, requires_grad=True)
torch.compile(lambda x: x * 3, backend=backend)(x).sum().backward()
"""


@pytest.fixture
def job(child: Executor, home: Path) -> Any:
    """``job(text)``: a triage of a script with this text, which has not run yet."""

    def make(text: str) -> Triage:
        surveys = Surveys(child, script(home, text), args=[], steps=None, hang_after=200, values=True)
        return Triage(surveys, on_note=lambda _: None, repeat_seconds=0)

    return make


def test_other_strides_do_not_stop_the_script(child: Executor, home: Path) -> None:
    found = finished(survey(child, script(home, CACHE)))
    (seen,) = found.layouts
    assert (seen.graph, seen.call, seen.verdict.kind) == (0, 0, "wrong_metadata")
    assert seen.verdict.is_layout_only
    assert found.checked.calls == 1


def test_a_wrong_value_behind_other_strides_is_the_failure(child: Executor, home: Path) -> None:
    failure = held(survey(child, script(home, CACHE + FAULT))).failure
    assert (failure.graph, failure.kind) == (1, "wrong_output")


def test_a_wrong_gradient_of_the_same_call_is_the_failure(child: Executor, home: Path) -> None:
    failure = held(survey(child, script(home, BACKENDS + GRADIENT))).failure
    assert (failure.phase, failure.kind) == ("backward", "wrong_gradient")


def test_other_strides_are_held_where_nothing_else_fails(job: Any) -> None:
    triage = job(CACHE)
    healthy = triage.run()
    assert isinstance(healthy, Settled)
    assert healthy.status is Status.HEALTHY
    case = triage.held_for_layout(triage.layouts[0], healthy)
    assert case is not None
    assert (case.signature.kind, case.signature.what, case.layout_only) == (Kind.WRONG_METADATA, "stride", True)
    assert "torch.cat" in targets(case.program)
    case.survey.close()


def test_a_check_of_strides_makes_them_a_failure_of_the_script(job: Any) -> None:
    case = job(CACHE + "assert kept.stride() == (80, 20, 4, 1), 'not as the kernel wants it'\n").run()
    assert isinstance(case, Case)
    assert (case.signature.kind, case.is_layout, case.layout_only) == (Kind.WRONG_METADATA, True, False)
    case.survey.close()
