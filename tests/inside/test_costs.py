"""Findings that are figures, with the real compiler: what programs cost, which smaller ones still do, and how their repros end."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any, cast

import pytest
from children import SECONDS

from minimizer.engine.advice.rules import Cause
from minimizer.engine.child.executor import Executor
from minimizer.engine.child.outcome import Cost
from minimizer.engine.emit import Details, Repro, emit
from minimizer.engine.levels import cost_oracle
from minimizer.engine.levels.cost_oracle import Bar, CostOracle, SavedOracle
from minimizer.engine.levels.finding_forms import forms
from minimizer.engine.oracle.oracle import Oracle
from minimizer.engine.program.arguments import Ref
from minimizer.engine.program.model import Input, Node, Program, TensorMeta
from minimizer.engine.reduce.python import Source
from minimizer.inside.questions import ScriptRequest
from minimizer.report.finding import Finding
from minimizer.report.model import Failure, Reproducibility
from minimizer.vocabulary import Kind

HAS_SIN = 'any("sin" in str(node.target) for node in graph.graph.nodes)'
BACKENDS = {
    Kind.SLOW: f"""\
def costly(graph, inputs):
    return (lambda *args: (time.sleep(0.05), graph(*args))[1]) if {HAS_SIN} else graph.forward
""",
    Kind.MEMORY: f"""\
class Keeps(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(*(x + i for i in range(8)))
        return x.clone()

    @staticmethod
    def backward(ctx, gradient):
        return gradient


def costly(graph, inputs):
    kept = Keeps.apply if {HAS_SIN} else torch.clone
    return lambda *args: tuple(map(kept, graph(*args)))
""",
    Kind.COMPILE_TIME: f"""\
def costly(graph, inputs):
    if {HAS_SIN}:
        time.sleep(3)
    return graph.forward
""",
}
"""Backends that cost what they need not, for graphs with a sine only."""
KINDS = list(BACKENDS)
DETAILS: Details = {"times": 3.0, "calls": 2}


def program(kind: Kind, *operators: str, backend: str = "costly") -> Program:
    names = ["x", *(f"v{i}" for i in range(len(operators)))]
    size = (
        512 if kind is Kind.MEMORY else 256
    )  # a call takes longer than to check its guards, and is short beside what costs
    meta = TensorMeta((size, size), "torch.float32", requires_grad=True)
    return Program(
        inputs=(Input("x", meta, code=f"torch.rand({size}, {size})"),),
        nodes=tuple(
            Node(name, f"torch.{op}", (Ref(before),))
            for before, name, op in zip(names, names[1:], operators, strict=False)
        ),
        outputs=(names[-1],),
        compile_kwargs=(("backend", backend),),
        setup=("import time", BACKENDS[kind]),
        grad=True,
    )


@pytest.fixture
def sensitive(monkeypatch: pytest.MonkeyPatch) -> None:
    """A second of compiling is a finding, and a call must be slower than any other work of the machine makes it."""
    more = {**cost_oracle.LEAST_MORE, Kind.COMPILE_TIME: 0.5, Kind.SLOW: 0.02}
    monkeypatch.setattr(cost_oracle, "LEAST_MORE", more)


def oracle_of(kind: Kind, child: Executor) -> CostOracle:
    return CostOracle.for_whole(Oracle(child, cast(Any, None), ()), kind)


@pytest.mark.usefixtures("sensitive")
@pytest.mark.parametrize("kind", KINDS)
def test_a_smaller_program_costs_as_much(kind: Kind, child: Executor) -> None:
    oracle = oracle_of(kind, child)
    assert oracle.aim(program(kind, "cos", "sin", "exp"))
    assert oracle.check([program(kind, "sin"), program(kind, "cos", "exp")]) == [True, False]
    assert oracle.cost(program(kind, "no_such_operator")) is None


@pytest.mark.usefixtures("sensitive")
@pytest.mark.parametrize("kind", KINDS)
def test_a_program_that_costs_what_eager_does_has_no_finding(kind: Kind, child: Executor) -> None:
    assert not oracle_of(kind, child).aim(program(kind, "cos", "exp"))
    assert not oracle_of(kind, child).aim(program(kind, "cos", "sin", backend="'eager'"))


def test_what_is_saved_counts_once_however_often_its_address_comes_again(child: Executor, home: Path) -> None:
    text = """
import torch
w = torch.ones(1000, 1000, requires_grad=True)
f = torch.compile(lambda w: (w * 2).exp().sin().sum(), backend="eager")
for _ in range(4):
    f(w).backward()
    w.grad = None
"""
    requests = [
        ScriptRequest(text=text, script=str(home / "loop.py"), count_saved=True, compile=one) for one in (False, True)
    ]
    eager, compiled = child.judge(requests, timeout=SECONDS)
    assert eager.saved == compiled.saved == 4 * 4_000_000  # in each of four steps the exponentials


def repro(kind: Kind, *operators: str) -> Repro:
    return emit(
        program(kind, *operators),
        Failure(kind=kind),
        [],
        environment={},
        rate=Reproducibility(failed=2, runs=2),
        details=DETAILS,
    )


LEAN = """\
import torch

class Lean(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, up):
        ctx.save_for_backward(x, up)
        return torch.nn.functional.silu(x @ up).sum(1, keepdim=True) + x

    @staticmethod
    def backward(ctx, gradient):
        x, up = ctx.saved_tensors
        hidden = x @ up
        gate = hidden.sigmoid()
        inner = gradient.sum(1, keepdim=True) * gate * (1 + hidden * (1 - gate))
        return inner @ up.T + gradient, x.T @ inner
{log}
up = torch.randn(16, 256, requires_grad=True)
step = torch.compile(lambda x: {call}, backend="aot_eager_decomp_partition")
{last}
"""
"""A function that computes its hidden values again in its backward, which compiled code keeps all the same."""
TWICE, ONCE = "Lean.apply(torch.tanh(Lean.apply(x, up)), up)", "torch.tanh(x @ up)"
LAST = "print(step(torch.ones(4096, 16)).sum().item())"


def saved_oracle(child: Executor, folder: Path) -> SavedOracle:
    return SavedOracle(child, folder / "lean.py", Cause(Finding(kind="memory", what="It keeps more.")))


def test_a_smaller_script_saves_as_much(child: Executor, home: Path) -> None:
    oracle = saved_oracle(child, home)
    whole = LEAN.format(log="print('starts')", call=TWICE, last=f"for _ in range(2):\n    {LAST}")
    assert oracle.aim(whole) and oracle.is_partitioned(whole)
    smaller = [LEAN.format(log="", call=call, last=LAST) for call in (TWICE, ONCE, "no_such(x)")]
    assert [oracle.check([Source.parse(one)]) for one in smaller] == [[True], [False], [False]]
    assert not saved_oracle(child, home).aim(smaller[1])


BACKWARD = "y = step(torch.ones(4096, 16))\ny.sum().backward()"


@pytest.mark.quality("slow")
@pytest.mark.parametrize("last", [LAST, "y = step(torch.ones(4096, 16))", BACKWARD])
def test_the_repro_of_a_script_ends_with_1_while_it_saves_as_much(last: str, tmp_path: Path) -> None:
    *_, form = forms(LEAN.format(log="", call=TWICE, last=last), Kind.MEMORY, "")
    *_, cured = forms(LEAN.format(log="", call=ONCE, last=last), Kind.MEMORY, "")
    status, said = end(form.text, tmp_path)
    assert status == 1 and form.evidence in said
    assert end(form.text, tmp_path, TORCHDYNAMO_DISABLE="1")[0] == 0
    assert end(cured.text, tmp_path)[0] == 0
    assert end(form.text.replace("ones(4096", "ones('a'"), tmp_path)[0] == 125


def end(source: str, folder: Path, **environment: str) -> tuple[int, str]:
    """The exit status of a repro in a process of its own, and what it prints."""
    (folder / "repro.py").write_text(source)
    done = subprocess.run(
        [sys.executable, "repro.py"],
        cwd=folder,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout + done.stderr


@pytest.mark.quality("slow")
@pytest.mark.parametrize("kind", KINDS)
def test_a_repro_ends_with_1_while_it_costs_as_much(kind: Kind, tmp_path: Path) -> None:
    """And with 0 once it does not, or without the compiler; with 125 where it cannot run."""
    text = repro(kind, "sin")
    status, said = end(text.source, tmp_path)
    assert status == 1 and text.evidence in said
    assert end(text.source, tmp_path, TORCHDYNAMO_DISABLE="1")[0] == 0
    assert end(repro(kind, "cos").source, tmp_path)[0] == 0
    assert end(text.source.replace("torch.sin", "torch.no_such_operator"), tmp_path)[0] == 125


@pytest.mark.parametrize(
    ("kind", "whole", "part", "shows"),
    [
        (Kind.SLOW, (0.01, 0.09), (0.01, 0.06), True),
        (Kind.SLOW, (0.01, 0.09), (0.01, 0.02), False),  # twice as slow, where the graph is nine times
        (Kind.SLOW, (0.01, 0.09), (2e-5, 3e-4), False),  # the price of any call
        (Kind.MEMORY, (16e6, 96e6), (1e6, 8e6), True),  # one of many equal layers
        (Kind.MEMORY, (16e6, 96e6), (7e6, 8e6), False),
        (Kind.MEMORY, (16e6, 96e6), (0.0, 1e5), False),
        (Kind.COMPILE_TIME, (1.0, 90.0), (1.0, 50.0), True),
        (Kind.COMPILE_TIME, (1.0, 90.0), (1.0, 20.0), False),
        (Kind.COMPILE_TIME, (1.0, 90.0), (8.0, 50.0), False),  # another load of the machine
    ],
)
def test_a_part_must_cost_a_good_part_of_the_whole(
    kind: Kind, whole: tuple[float, float], part: tuple[float, float], shows: bool
) -> None:
    (base, compiled), (part_base, part_compiled) = whole, part
    bar = Bar.of(kind, Cost(base=base, compiled=compiled))
    assert bar.is_cleared(Cost(base=part_base, compiled=part_compiled)) is shows
