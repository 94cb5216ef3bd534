"""Calls that led to a failing one: what a survey keeps of them, and how it passes by what was looked into."""

from __future__ import annotations

from pathlib import Path

from children import script, survey
from surveyed import BACKENDS, finished, held

from minimizer.engine.child.executor import Executor
from minimizer.engine.levels.call_sequence import as_script

THIRD = """
import torch

def late(graph, inputs):
    calls = []
    def run(*args):
        calls.append(1)
        return [out + (len(calls) > 2) for out in graph(*args)]
    return run

@torch.compile(backend=late)
def step(x, y):
    return x + y

buffer = torch.ones(8)
for n in range(5):
    step(buffer[n:n + 2], buffer[n + 1:n + 3])
"""


def test_calls_before_the_held_one_are_kept_as_text(child: Executor, home: Path) -> None:
    path = script(home, THIRD)
    failing = held(survey(child, path)).failure
    assert (failing.graph, failing.call) == (0, 2)
    found = survey(child, path, hold={"graph": failing.graph, "call": failing.call})
    base = "base = torch.ones((8,))"
    calls = found.calls()
    assert [(call.statements, [*call.values.values()]) for call in calls] == [
        ([base], [f"base[{n}:{n + 2}]", f"base[{n + 1}:{n + 3}]"]) for n in range(3)
    ]
    text = as_script(found.program("auto"), calls)
    found.close()
    assert text is not None
    assert finished(survey(child, script(home, text, "calls.py"), values=False)).exception is not None


def test_calls_of_a_graph_that_is_passed_by_are_not_compared(child: Executor, home: Path) -> None:
    text = f"""{BACKENDS}
@torch.compile(backend=wrong)
def first(x):
    return x * 2

@torch.compile(backend=wrong)
def second(x):
    return x * 3

first(torch.ones(2))
second(torch.ones(2))
"""
    path = script(home, text)
    assert held(survey(child, path)).failure.graph == 0
    assert held(survey(child, path, passed_by=[0])).failure.graph == 1
    seen = finished(survey(child, path, passed_by=[0, 1]))
    assert seen.checked.calls == 0
    assert seen.checked.not_compared == [
        f"1 call of graph {graph}: it has failed before, and this run looks for another failure" for graph in (0, 1)
    ]


def test_graphs_come_from_the_caches_only_where_they_are_asked_for(child: Executor, home: Path) -> None:
    text = """
    import torch
    import torch._functorch.config, torch._inductor.config
    from torch._dynamo.utils import counters

    torch.compile(lambda x: (x + 3).sin())(torch.ones(7))
    settings = torch._inductor.config.fx_graph_cache, torch._functorch.config.enable_autograd_cache
    hits = sum(count for part in counters.values() for name, count in part.items() if name.endswith("cache_hit"))
    raise RuntimeError(f"{settings} {hits > 0}")
    """
    path = script(home, text)

    def said(*, caches: bool) -> str:
        error = finished(survey(child, path, caches=caches)).exception
        assert error is not None
        return error.message

    assert said(caches=False) == "(False, False) False"
    assert said(caches=True) == "(True, True) False"
    assert said(caches=True) == "(True, True) True"
