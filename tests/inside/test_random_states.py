"""The random states that runs of a script start from: a seed that matters has to stand in its text."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent

import pytest
from children import script

from minimizer.engine.between.exact_runs import ExactRuns
from minimizer.engine.between.mechanism import mechanism_of
from minimizer.engine.between.oracle import ExactOracle
from minimizer.engine.between.script_runs import ALL, Children, ScriptRuns
from minimizer.engine.child.executor import Executor
from minimizer.engine.reduce.python import Rerun, Source
from minimizer.inside.questions import Conditions, Plan

ONLY_THESE = """
    import torch
    torch.manual_seed(7)
    def backend(module, inputs):
        raise RuntimeError("broken")
    if torch.rand(3).tolist() == {numbers}:
        torch.compile(lambda x: x + 1, backend=backend)(torch.ones(1))
"""
"""Fails with certain numbers only."""
LOST = """
    import collections, torch
    torch.manual_seed(7)
    events = collections.OrderedDict(a=1, b=2)
    @torch.compile
    def f(events, x):
        events.move_to_end("a")
        return x + 1
    f = f if torch.rand(3).tolist() == {numbers} else (lambda events, x: x)
    f(events, torch.ones(1))
"""
SEED = "torch.manual_seed(7)\n"


def numbers() -> list[float]:
    import torch

    return torch.rand(3, generator=torch.Generator().manual_seed(7)).tolist()


@pytest.mark.parametrize("drawn", ["torch.rand(1).item()", "random.random()"])
def test_each_run_draws_other_numbers(drawn: str, child: Executor, home: Path) -> None:
    rerun = Rerun(child, script(home, ""))
    text = f"import random, torch\nf = torch.compile(lambda x: x + 1, backend='eager')\nf(torch.ones(1))\nraise ValueError({drawn})\n"
    outcomes = [rerun.failure(text)[1], rerun.failure(text)[1]]
    words = {outcome.exception.message for outcome in outcomes if outcome.exception is not None}
    assert len(words) == 2
    assert all(outcome.draws for outcome in outcomes)


def test_a_script_without_random_numbers_draws_none(child: Executor, home: Path) -> None:
    outcome = Rerun(child, script(home, "")).observed("import torch\nx = torch.ones(3) * 2\n")
    assert not outcome.draws


def test_a_rerun_keeps_a_seed_that_matters_and_lets_another_go(child: Executor, home: Path) -> None:
    text = dedent(ONLY_THESE).format(numbers=numbers())
    rerun = Rerun(child, script(home, ""))
    rerun.target, _ = rerun.failure(text)
    assert rerun.target is not None
    always = text.replace("if torch.rand(3).tolist()", "if torch.rand(3) is not None or torch.rand(3).tolist()")
    tried = [text, text.replace(SEED, ""), always.replace(SEED, "")]
    assert [rerun.check([Source.parse(one)]) for one in tried] == [[True], [False], [True]]


def test_exact_runs_keep_a_seed_that_matters_and_let_another_go(child: Executor, home: Path) -> None:
    text = dedent(LOST).format(numbers=numbers())
    path = script(home, text)
    runs = ExactRuns(child, path, timeout=120)
    found = runs.compare(text).found
    assert found is not None and found.draws
    oracle = ExactOracle(child, path, found, mechanism_of(found, runs, text))
    always = text.replace("f = f if", "f = f if True or")
    tried = [text, text.replace(SEED, ""), always.replace(SEED, "")]
    assert oracle.check([Source.parse(one) for one in tried]) == [True, False, True]


def test_all_exact_runs_of_one_comparison_draw_the_same(child: Executor, home: Path) -> None:
    text = "import random, torch\nx = torch.rand(2)\ny = random.random()\ntorch.compile(lambda x: x + 1)(x)\n"
    runs = ScriptRuns(Children(child, script(home, text), timeout=120), text, Conditions(state=7))
    eager, compiled = runs.logs(Plan(eager=ALL), Plan())
    assert eager is not None and compiled is not None
    *_, (_, one) = eager.states()
    *_, (_, two) = compiled.states()
    assert one["x"] == two["x"] and one["y"] == two["y"]
