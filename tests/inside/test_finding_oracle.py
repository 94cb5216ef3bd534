"""Findings as failures, with the real compiler: which smaller scripts still have one, and how the repro of one ends."""

from __future__ import annotations

import ast
from pathlib import Path
from textwrap import dedent

import pytest

from minimizer.engine.advice.asked import causes_of, first_line
from minimizer.engine.child.executor import Executor
from minimizer.engine.levels.finding import FindingOracle
from minimizer.engine.levels.finding_forms import BREAK, COMPILED, forms
from minimizer.engine.reduce.python import Source
from minimizer.engine.reduce.python.rerun import Rerun
from minimizer.inside.questions import ScriptRequest
from minimizer.vocabulary import Kind

SIZES = """\
import torch
f = torch.compile(lambda x: x + 1, dynamic={dynamic}, backend='eager')
for size in ({sizes}):
    f(torch.ones(size))
"""
PRINTED = """\
import torch

def f(x):
    print('shape', x.shape)
    return x + 1
torch.compile(f, backend='eager')(torch.ones(2))
"""
TAKEN = """\
import torch

def f(x):
    return x / x.max().item()
torch.compile(f, backend='eager')(torch.ones(2))
"""
LOOP = """\
import torch

def f(x):
    for _ in range(3):
        if x.sum() > 0:
            x = x - 1
    return x
torch.compile(f, backend='eager')(torch.ones(2))
"""
BRANCH = LOOP.replace(
    "    for _ in range(3):\n        if x.sum() > 0:\n            x", "    if x.sum() > 0:\n        x"
)
ASKED_FOR = PRINTED.replace("print('shape', x.shape)", "torch._dynamo.graph_break()")
COUNTED = """\
import torch

class Net(torch.nn.Module):
    count = 0

    def forward(self, x):
        self.count += {step}
        return x * self.count
net = torch.compile(Net(), backend='eager')
for _ in range(5):
    net(torch.ones(2))
"""

DECAYED = """\
import torch

class Scale(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.rate = 0.5

    def forward(self, x):
        self.rate = self.rate * 0.9
        return torch.tanh(x) * self.rate
scale = torch.compile(Scale(), backend='aot_eager')
for _ in range(6):
    scale(torch.ones(2))
"""


def oracle_for(text: str, kind: Kind, child: Executor, home: Path) -> FindingOracle:
    """What judges scripts by the costliest finding of this one."""
    path = home / "finding.py"
    request = ScriptRequest(text=text, script=str(path), measure=True)
    (outcome,) = child.judge([request], timeout=200)
    return FindingOracle(child, path, kind, causes_of(kind, outcome.broken, outcome.recompiled)[0])


@pytest.mark.parametrize(
    ("kind", "text", "smaller", "expected"),
    [
        (Kind.GRAPH_BREAK, PRINTED, PRINTED.replace("    return x + 1\n", ""), True),
        (Kind.GRAPH_BREAK, PRINTED, TAKEN, False),  # another reason
        (Kind.GRAPH_BREAK, PRINTED, ASKED_FOR, False),
        (Kind.GRAPH_BREAK, PRINTED, PRINTED.replace("x.shape", "y.shape"), False),  # it raises
        (Kind.GRAPH_BREAK, LOOP, BRANCH, True),
        (Kind.RECOMPILES, SIZES.format(dynamic=False, sizes="7, 12, 9, 15, 21"), SIZES.format(dynamic=False, sizes="1, 2, 3, 4"), True),
        (Kind.RECOMPILES, SIZES.format(dynamic=False, sizes="7, 12, 9, 15, 21"), SIZES.format(dynamic=False, sizes="1, 2, 3"), False),
        (Kind.RECOMPILES, SIZES.format(dynamic=False, sizes="7, 12, 9, 15, 21"), SIZES.format(dynamic=None, sizes="7, 12, 9, 15, 21, 1"), False),
        (Kind.RECOMPILES, COUNTED.format(step=1), SIZES.format(dynamic=False, sizes="1, 2, 3, 4"), False),
        (Kind.RECOMPILES, COUNTED.format(step=2), COUNTED.format(step=1), True),
    ],
)  # fmt: skip
@pytest.mark.examples(4)
def test_a_smaller_script_has_the_same_finding(
    kind: Kind, text: str, smaller: str, expected: bool, child: Executor, home: Path
) -> None:
    oracle = oracle_for(text, kind, child, home)
    assert oracle.check([Source.parse(smaller)]) == [expected]


@pytest.mark.parametrize(
    ("kind", "text", "cured", "form", "says"),
    [
        (Kind.GRAPH_BREAK, PRINTED, PRINTED.replace("print('shape', x.shape)", "pass"), 0, "fullgraph=True"),
        (Kind.GRAPH_BREAK, LOOP, LOOP.replace("if x.sum() > 0", "if x.ndim"), 0, "fullgraph=True"),
        (Kind.GRAPH_BREAK, TAKEN, TAKEN.replace(".item()", ""), 1, 'counters["graph_break"]'),
        (Kind.RECOMPILES, SIZES.format(dynamic=False, sizes="1, 2, 3, 4"), SIZES.format(dynamic=None, sizes="1, 2, 3, 4"), 0, "recompile_limit = 3"),
        (Kind.RECOMPILES, COUNTED.format(step=1), COUNTED.format(step=0), 0, "recompile_limit = 3"),
    ],
)  # fmt: skip
@pytest.mark.examples(2)
def test_a_repro_ends_with_1_while_the_finding_is_there(
    kind: Kind, text: str, cured: str, form: int, says: str, child: Executor, home: Path
) -> None:
    """And with 0 without it, or without the compiler; with 125 where the script itself fails."""
    reason = first_line(oracle_for(text, kind, child, home).cause)
    rerun = Rerun(child, home / "finding.py")

    def end(script: str, *, compiled: bool = True) -> str:
        """What the form of a script says at its end; empty for exit status 0."""
        source = [*forms(script, kind, reason)][form].text
        (outcome,) = child.judge(
            [ScriptRequest(text=source, script=str(home / "finding.py"), compile=compiled)], timeout=200
        )
        return outcome.exception.message if outcome.exception is not None else ""

    shown = [*forms(text, kind, reason)]
    assert says.replace('"', "'") in shown[form].text.replace('"', "'")
    assert shown[form].evidence in end(text)
    assert shown[form].evidence.startswith(BREAK if kind is Kind.GRAPH_BREAK else COMPILED)
    assert rerun.ends_well(shown[form].text)
    assert end(cured) == ""
    assert end(text.replace("torch.ones(2)", "torch.ones('a')").replace("torch.ones(size)", "torch.ones('a')")) == "125"


def test_what_is_split_keeps_its_parts(child: Executor, home: Path) -> None:
    """A print of which nothing is split costs nothing."""
    text = PRINTED.replace("    print(", "    x = x * 2\n    print(")
    oracle = oracle_for(text, Kind.GRAPH_BREAK, child, home)
    assert oracle.aim(text) and (oracle.backend, oracle.graphs) == ("eager", 2)
    assert oracle.check([Source.parse(PRINTED)]) == [False]
    assert oracle.check([Source.parse(text.replace("x.shape", "1, 2"))]) == [True]


def test_a_guard_that_comes_from_behind_dynamo_is_asked_for_there(child: Executor, home: Path) -> None:
    oracle = oracle_for(DECAYED, Kind.RECOMPILES, child, home)
    assert oracle.aim(DECAYED) and oracle.backend == "aot_eager"


def test_fullgraph_that_captures_a_number_shows_no_break(child: Executor, home: Path) -> None:
    """Why that form does not do for all breaks, and is tried."""
    first = next(forms(TAKEN, Kind.GRAPH_BREAK, "Unsupported Tensor.item() call"))
    assert Rerun(child, home / "finding.py").failure(first.text)[1].exception is None


def test_a_script_without_a_finding_has_no_cause(child: Executor, home: Path) -> None:
    text = dedent(SIZES).format(dynamic=None, sizes="7, 12, 9, 1")
    (outcome,) = child.judge([ScriptRequest(text=text, script=str(home / "finding.py"), measure=True)], timeout=200)
    assert outcome.recompiled and not causes_of(Kind.RECOMPILES, outcome.broken, outcome.recompiled)
    assert not causes_of(Kind.GRAPH_BREAK, outcome.broken, outcome.recompiled)


@pytest.mark.parametrize("kind", [Kind.GRAPH_BREAK, Kind.RECOMPILES])
def test_a_repro_runs_whatever_name_the_script_has_for_torch(kind: Kind) -> None:
    text = '"""A script."""\nfrom __future__ import annotations\nimport torch as th\nth.compile(abs)(th.ones(1))\n'
    for form in forms(text, kind, "A reason"):
        tree = ast.parse(form.text)
        compile(tree, "repro.py", "exec")  # imports from the future come first
        assert any(isinstance(one, ast.Import) and one.names[0].asname is None for one in tree.body)


def test_a_break_that_is_not_the_findings_does_not_fail_its_repro() -> None:
    *_, counted = forms("import torch\ntorch.compile(abs)(1)\n", Kind.GRAPH_BREAK, "Data-dependent {x}")
    assert "if one.startswith('Data-dependent {x}')]" in counted.text
