"""Scripts whose compiled code is right and that do something else for the wrappers; and their twins, which do not."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent

import pytest
from children import script

from minimizer.engine.between.exact_runs import ExactRuns
from minimizer.engine.between.wrapper_effect import ASKED, CLASS, NAMES, Effect, wrapper_effect
from minimizer.engine.child.executor import Executor

AVERAGED = """
    import torch
    class Average:
        def __init__(self, model):
            self.kept = {n: p.detach().clone() for n, p in model.named_parameters()}
        @torch.no_grad()
        def update(self, model):
            for name, p in model.named_parameters():
                if name in self.kept:
                    self.kept[name].lerp_(p, 0.1)
    def main():
        torch.manual_seed(0)
        net = torch.nn.Linear(4, 1)
        average, train = Average(net), torch.compile(net)
        opt = torch.optim.SGD(net.parameters(), lr=0.1)
        for _ in range(5):
            train(torch.randn(8, 4)).square().mean().backward()
            opt.step()
            opt.zero_grad()
            average.update({given})
        print("kept", average.kept["weight"].sum().item())
    main()
"""
COUNTED = """
    import torch
    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.steps, self.linear = 0, torch.nn.Linear(4, 4)
        def forward(self, x):
            if {given}:
                self.steps += 1
            return self.linear(x)
    net = torch.compile(Net())
    for _ in range(5):
        net(torch.ones(1, 4))
"""
PENALIZED = """
    import torch
    class Net(torch.nn.Linear):
        pass
    def penalty(model):
        return 0.1 if isinstance(model, Net) else 0.0
    net = Net(4, 4)
    model = torch.compile(net)
    model(torch.ones(1, 4))
    total = penalty({given}) + 1
"""
PRESENT = """
    import torch
    net = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU())
    model = torch.compile(net)
    names, modules = [n for n, _ in model.named_parameters()], list(model.modules())
    count, state = len(modules), model.state_dict()
    norms = {n: p.norm().item() for n, p in model.named_parameters()}
    is_compiled = hasattr(model, "_orig_mod")
    print(model, names, is_compiled, isinstance(model, torch.nn.Sequential))
    print(count, "modules", len(names), "parameters", model(torch.ones(1, 4)).sum().item())
    (model._orig_mod if is_compiled else model).eval()
"""
OTHER_WAY = """
    import torch
    @torch.compile
    def rms(x):
        if torch.compiler.is_compiling():
            return x.pow(2).mean().sqrt()
        return (x * x).sum().div(x.numel()).sqrt()
    torch.manual_seed(0)
    total = sum(rms(torch.randn(100)).item() for _ in range(10))
    print("total", total)
"""
TIMED = """
    import time, torch
    f, began = torch.compile(lambda x: x + 1), time.time()
    if torch.compiler.is_compiling():
        pass
    f(torch.ones(1))
    print("took", time.time() - began)
"""
DRAWN = """
    import torch
    net = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Dropout())
    model = torch.compile(net)
    list(model.named_parameters())
    y = model(torch.randn(2, 4))
    print(y.sum().item())
"""


def effect(child: Executor, home: Path, text: str, given: str = "") -> Effect | None:
    text = dedent(text).replace("{given}", given)
    runs = ExactRuns(child, script(home, text), timeout=120)
    assert runs.compare(text).found is None
    return wrapper_effect(runs, text)


@pytest.mark.parametrize(
    ("text", "given", "path", "sort", "line"),
    [
        (AVERAGED, "train", "printed text[0]", NAMES, 8),
        (COUNTED, "not torch.compiler.is_compiling()", "net.steps", ASKED, 8),
        (PENALIZED, "model", "total", CLASS, 6),
    ],
)
def test_what_a_script_does_for_the_wrapper_is_found_with_the_line(
    child: Executor, home: Path, text: str, given: str, path: str, sort: str, line: int
) -> None:
    found = effect(child, home, text, given)
    assert found is not None
    assert (found.path, found.glance.sort, found.glance.line) == (path, sort, line)


@pytest.mark.parametrize(
    ("text", "given"),
    [
        (AVERAGED, "net"),
        (AVERAGED, "train._orig_mod if hasattr(train, '_orig_mod') else train"),
        (COUNTED, "True"),
        (PENALIZED, "net"),
        (PRESENT, ""),
        (OTHER_WAY, ""),
        (TIMED, ""),
        (DRAWN, ""),
    ],
)
@pytest.mark.examples(3)
def test_a_script_that_is_the_same_with_wrappers_is_left_alone(
    child: Executor, home: Path, text: str, given: str
) -> None:
    """Names and wrappers that are kept or printed, sums in another order, times and random numbers are no effect."""
    assert effect(child, home, text, given) is None


@pytest.mark.parametrize(("given", "runs_more"), [("net", False), ("model", True)])
def test_a_script_is_run_again_only_where_it_looked_at_a_wrapper(
    child: Executor, home: Path, given: str, runs_more: bool
) -> None:
    text = dedent(PENALIZED).replace("{given}", given)
    runs = ExactRuns(child, script(home, text), timeout=120)
    assert runs.compare(text).found is None
    compared = runs.runs
    assert (wrapper_effect(runs, text) is not None) == runs_more
    assert (runs.runs > compared) == runs_more
