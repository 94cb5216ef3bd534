"""An error that ends a script in eager and that no graph of it lacks: reduced by how the script ends on both sides."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from children import script

from minimizer.engine.budget.clock import Clock
from minimizer.engine.child.executor import Executor
from minimizer.engine.journal import Journal
from minimizer.engine.levels.missing_error import LackingRerun, MissingErrorLevel, error_of
from minimizer.engine.reduce.python import Source
from minimizer.report.model import Report
from minimizer.sink import FolderSink
from minimizer.vocabulary import Kind, Stage

CHANGED = """\
import torch


def weigh(x, w):
    return x @ w


weigh = torch.compile(weigh)
inputs = torch.ones(2, 2)
weights = torch.ones(2, 2, requires_grad=True)
print("one step")
loss = weigh(inputs, weights).sum()
inputs.zero_()
loss.backward()
print(weights.grad)
"""
"""Compiled code saves a view of its input without its version, so that the change behind its back is not seen."""


@pytest.mark.quality("slow")
def test_an_error_of_eagers_backward_has_a_repro(
    child: Executor, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal = Journal(FolderSink(tmp_path), Report(), Clock(600))
    draft = MissingErrorLevel(child, script(home, CHANGED), [], journal, jobs=2).draft()
    assert draft is not None
    source, failure, (culprit,) = draft.repro.source, journal.report.failure, journal.report.culprits
    assert failure is not None and culprit.source is not None
    assert (failure.kind, failure.exception_type) == (Kind.MISSING_ERROR, "RuntimeError")
    assert "modified by an inplace operation" in failure.message and failure.stage is Stage.INDUCTOR
    assert (culprit.source.line, culprit.source.code) == (14, "loss.backward()")
    assert "print" not in source

    def refused(model: object) -> object:
        raise RuntimeError("no compiler here")

    for compiled, status in ((lambda model: model, 0), (refused, 125)):
        monkeypatch.setattr(torch, "compile", compiled)
        with pytest.raises(SystemExit) as ended:
            exec(source, {})
        assert ended.value.code == status


def test_another_error_of_eager_is_another_failure(child: Executor, home: Path) -> None:
    raises = "    if not torch.compiler.is_compiling():\n        raise RuntimeError(str(x.shape))\n    return x @ w"
    other = CHANGED.replace("inputs.zero_()\n", "").replace("    return x @ w", raises)
    rerun = LackingRerun(child, script(home, CHANGED))
    rerun.target = error_of(rerun.in_eager(CHANGED))
    assert error_of(rerun.in_eager(other)) is not None and rerun.fails_on(other, "inductor")
    assert [rerun.check([Source.parse(text)]) for text in (CHANGED, other)] == [[True], [False]]
