"""From which memory on a graph is a finding, and the budget that is tried."""

from __future__ import annotations

from pathlib import Path

import pytest

from minimizer.engine.advice.edits import edits
from minimizer.engine.advice.memory import MORE
from minimizer.engine.advice.remedies import AGAIN, UNCOUNTED, Trial
from minimizer.engine.advice.rules import Cause, causes
from minimizer.engine.budget.clock import Clock
from minimizer.engine.child.compilations import StackLine
from minimizer.engine.child.protocol import Checked, Finished, Health, Kept
from minimizer.engine.journal import Journal
from minimizer.report.model import Report
from minimizer.sink import FolderSink

LINE = StackLine(file="train.py", line=12, code="loss = model(x)")
SCRIPT = "import torch\nmodel = torch.compile(model)\n"


def found(eager: int, compiled: int) -> list[Cause]:
    return causes(Health(kept=[Kept(place=LINE, eager=eager, compiled=compiled)]), "", "train.py")


def test_more_than_eager_keeps_is_told_with_both_figures() -> None:
    (cause,) = found(30_000_000, 143_000_000)
    finding = cause.finding
    assert finding.kind == "memory" and "keeps 143 MB of activations, and eager 30 MB" in finding.what
    assert finding.cost is not None and finding.cost.words == "113 MB kept for the backward beyond eager's"
    assert finding.source is not None and finding.source.line == 12


@pytest.mark.parametrize(
    ("eager", "compiled"), [(0, MORE - 1), (1_000_000_000, 1_200_000_000), (143_000_000, 30_000_000)]
)
def test_a_little_more_or_less_is_no_finding(eager: int, compiled: int) -> None:
    assert found(0, MORE) and not found(eager, compiled)


def ran(*compiled: int, output: str = "loss 1.0\n") -> Finished:
    health = Health(kept=[Kept(place=LINE, eager=30_000_000, compiled=one) for one in compiled])
    return Finished(checked=Checked(graphs=1), health=health, output=output)


@pytest.mark.parametrize(
    ("after", "helped", "note"),
    [
        (ran(50_000_000), True, AGAIN),
        (ran(120_000_000), False, AGAIN),
        (ran(), False, UNCOUNTED),
        (ran(50_000_000, output="loss 2.0\n"), False, "It does not keep the results"),
    ],
    ids=["helps", "gains little", "was not counted", "another result"],
)
def test_a_budget_helps_where_a_quarter_less_is_kept(tmp_path: Path, after: Finished, helped: bool, note: str) -> None:
    (cause,), base = found(30_000_000, 143_000_000), ran(143_000_000)
    first, second = edits(SCRIPT, cause, "train.py")
    assert "import torch._functorch.config\ntorch._functorch.config.activation_memory_budget = 0.5\n" in first.text
    assert "budget = 0.1" in second.what

    def run(text: str | None = None, *, cold: bool = False) -> Finished:
        return after if text else base

    remedy = Trial(base, run, SCRIPT, "train.py", Journal(FolderSink(tmp_path), Report(), Clock(600))).remedy(first)

    assert (remedy.before, remedy.helped) == (143.0, helped) and note in remedy.note
