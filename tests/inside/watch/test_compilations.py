"""Graph breaks and recompiles as Dynamo's own metrics have them, from real runs."""

from __future__ import annotations

from pathlib import Path

from children import script, survey

from minimizer.engine.child import protocol
from minimizer.engine.child.executor import Executor


def health(child: Executor, path: Path) -> protocol.Health:
    found = survey(child, path, measure=True, values=False).finished
    assert found is not None and found.exception is None and found.health is not None
    return found.health


BREAKS = """
    import torch

    class Layer(torch.nn.Module):
        def forward(self, x):
            y = x.cos()
            if y.sum() > 0:
                return y
            return -y

    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = torch.nn.ModuleList([Layer() for _ in range(3)])

        def forward(self, x):
            for layer in self.layers:
                x = layer(x)
            return x

    net = torch.compile(Net(), backend="eager")
    for _ in range(5):
        net(torch.ones(4))

    @torch.compile(backend="eager")
    def looped(x):
        for _ in range(2):
            x = x.sin()
            print("step")
        return x

    looped(torch.ones(2))

    @torch.compile(backend="eager")
    def asked(x):
        torch._dynamo.graph_break()
        return x + 1

    asked(torch.ones(2))
"""


def test_each_break_has_its_place_the_function_that_it_splits_and_how_often_it_was_passed(
    child: Executor, tmp_path: Path
) -> None:
    found = health(child, script(tmp_path, BREAKS))

    branch, asked, looped = sorted(found.broken, key=lambda one: (one.is_whole, one.stack[-1].line))
    assert (branch.stack[-1].file, branch.stack[-1].line) == ("script.py", 7)
    assert branch.stack[-1].code == "if y.sum() > 0:"
    assert branch.function == "forward" and branch.passes == 15
    assert asked.reason.startswith("Call to `torch._dynamo.graph_break()`") and asked.function == "asked"
    assert looped.is_whole and looped.stack[-1].line == 29 and looped.function == "looped"
    assert found.calls == 7


RECOMPILES = """
    import torch

    class Counted(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.step = 0

        def forward(self, x):
            self.step += 1
            return x * self.step

    counted = torch.compile(Counted(), backend="eager")

    def train():
        for _ in range(10):
            counted(torch.ones(2))

    @torch.compile(backend="eager")
    def grown(x):
        return x.cumsum(0)

    train()
    for size in range(2, 7):
        grown(torch.ones(size))
"""


def test_each_recompile_has_its_guard_and_the_line_that_made_it(child: Executor, tmp_path: Path) -> None:
    found = health(child, script(tmp_path, RECOMPILES)).recompiled

    steps = [one for one in found if one.function == "forward"]
    assert all("self.step == " in one.guard for one in steps)
    assert [one.refused for one in steps] == [False] * 7 + [True]
    assert {(one.made_by[-1].line, one.made_by[-1].code) for one in steps} == {(10, "self.step += 1")}
    assert [line.line for line in steps[0].stack] == [23, 17, 9]
    (sized,) = [one for one in found if one.function == "grown"]
    assert "size mismatch at index 0. expected 2, actual 3" in sized.guard
    assert sized.stack[-1].code == "def grown(x):" and not sized.made_by and sized.seconds > 0


UNROLLED = """
    import torch

    @torch.compile(backend="eager")
    def windowed(x, start, end):
        x = x.sin()
        for place in range(start, end):
            x = x + place
        return x

    for start in range(2, 7):
        windowed(torch.ones(2), start, start + 3)
"""


def test_a_guard_on_a_symbolic_number_has_the_line_that_made_it(child: Executor, tmp_path: Path) -> None:
    found = health(child, script(tmp_path, UNROLLED)).recompiled

    assert [one.guard.partition("  #")[0] for one in found][2:] == ["0/2: start == 4", "0/3: start == 5"]
    assert {(one.made_by[-1].line, one.made_by[-1].function) for one in found} == {(7, "windowed")}


FORKED = """
    import torch

    @torch.compile(backend="eager")
    def drawn(x):
        x = x.sin()
        with torch.random.fork_rng():
            noise = torch.rand(3)
        return x + noise

    for _ in range(3):
        drawn(torch.ones(3))
"""


def test_a_break_of_the_rest_of_a_function_is_at_the_line_at_which_the_rest_begins(
    child: Executor, tmp_path: Path
) -> None:
    (found,) = health(child, script(tmp_path, FORKED)).broken
    assert (found.stack[-1].line, found.function, found.is_whole) == (7, "drawn", False)
