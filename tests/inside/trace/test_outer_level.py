"""A script that raises around its graphs becomes a repro of its calls of torch; any other goes on to the reduction of its text."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from textwrap import dedent

import pytest
from children import SECONDS, script

from minimizer.engine.budget.clock import Clock
from minimizer.engine.child.executor import Executor
from minimizer.engine.journal import Journal
from minimizer.engine.levels.draft import Draft
from minimizer.engine.levels.outer import OuterLevel
from minimizer.engine.outer.runs import trace
from minimizer.engine.outer.search import smallest
from minimizer.engine.reduce.python import Rerun
from minimizer.engine.survey.cases import Settled
from minimizer.report.model import Report
from minimizer.sink import FolderSink
from minimizer.vocabulary import Kind, Reason, Status

TRAINING = """
    import torch
    import torch.nn.functional as F
    from torch import nn

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.first = nn.Linear(6, 8)
            self.last = nn.Linear(8, 3)

        def forward(self, x):
            return self.last(F.silu(self.first(x)))

    def slope_of(loss, weight):
        (slope,) = torch.autograd.grad(loss, weight, retain_graph=RETAIN)
        return slope.norm()

    torch.manual_seed(1)
    net = Net()
    compiled = torch.compile(net, backend="aot_eager")
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for step in range(3):
        x = torch.randn(4, 6)
        target = x[:, :3]
        loss = F.mse_loss(compiled(x), target)
        if step > 1:
            print(slope_of(loss, net.last.weight))
        else:
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
"""
RAISES, HEALTHY = TRAINING.replace("RETAIN", "True"), TRAINING.replace("RETAIN", "False")
OWN_CHECK = HEALTHY + "    assert not torch.compile(lambda y: y + 1, backend='eager')(x).sum().isfinite()\n"
IN_DYNAMO = HEALTHY + "    torch.compile(lambda y: print(y), fullgraph=True, backend='eager')(x)\n"
SHORT = """
    import torch
    w = torch.ones(2, 2, requires_grad=True)
    f = torch.compile(lambda w: w.exp() @ w, backend="aot_eager")
    f(w).sum().backward()
    torch.autograd.grad(f(w).sum(), w, retain_graph=True)
"""

Drafted = Callable[[str], tuple[Draft | None, Journal]]


@pytest.fixture
def drafted(child: Executor, home: Path, tmp_path: Path) -> Drafted:
    """What the level makes of a script, and the journal of that."""

    def run(text: str) -> tuple[Draft | None, Journal]:
        journal = Journal(FolderSink(tmp_path), Report(), Clock(600))
        level = OuterLevel(child, script(home, dedent(text)), [], journal, jobs=2)
        same = Settled(Status.PARTIAL, Reason.NOT_VERIFIED, "", kind=Kind.RUNTIME_ERROR)
        return level.draft(same), journal

    return run


@pytest.mark.parametrize(
    ("text", "events"),
    [
        pytest.param(
            RAISES,
            """\
import torch
w = torch.ones(2, 2, requires_grad=True)
f = torch.compile(lambda w: (w @ w).exp() @ w, backend='aot_eager')
out1 = f(w)
out1.sum().backward()
out3 = f(w)
out4 = torch.autograd.grad(out3.sum(), w, retain_graph=True)[0]
""",
            id="a second gradient",
        ),
        pytest.param(HEALTHY, None, id="healthy"),
    ],
)
def test_the_calls_that_raise_are_found(text: str, events: str | None, child: Executor, home: Path) -> None:
    path = script(home, dedent(text))
    rerun = Rerun(child, path)
    rerun.target = rerun.failure(dedent(RAISES))[0]
    assert rerun.target is not None
    program = trace(child, path, [], timeout=SECONDS).program
    assert program is not None

    found = smallest(program, rerun, path.name, jobs=2, watch=lambda: None)

    assert (found and found.script.text) == events
    if found is not None:
        assert rerun.backend is None  # it was confirmed on the script's own
        last = found.script.lines[len(found.script.text.splitlines())]
        assert last[2] == "(slope,) = torch.autograd.grad(loss, weight, retain_graph=True)"


@pytest.mark.quality("slow")
@pytest.mark.timeout(600)
def test_the_failure_is_told_as_the_script_raises_it(drafted: Drafted) -> None:
    """The flat program has other lines, and a guess other operators."""
    draft, _ = drafted(RAISES)

    assert draft is not None
    failure, (culprit,) = draft.fault.announced, draft.fault.culprits
    assert "in slope_of" in failure.traceback
    assert "torch.autograd.grad(loss, weight, retain_graph=True)" in failure.traceback
    assert "out3" not in failure.traceback
    assert culprit.ops == [] and "torch.autograd.grad" in culprit.what
    assert draft.fault.reduced.lines_before == len(dedent(RAISES).strip().splitlines())


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(HEALTHY, id="healthy"),
        pytest.param(OWN_CHECK, id="a check of the script's own"),
        pytest.param(IN_DYNAMO, id="Dynamo raises before there is a graph"),
        pytest.param(SHORT, id="shorter than what is traced"),
    ],
)
def test_what_its_calls_do_not_show_is_left_to_its_text(text: str, drafted: Drafted) -> None:
    draft, journal = drafted(text)

    assert draft is None
    assert not journal.report.culprits
