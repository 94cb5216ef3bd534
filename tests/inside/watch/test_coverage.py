"""What a survey tells of its coverage: calls made and compared, module instances, what was left out, the largest difference."""

from __future__ import annotations

from pathlib import Path

import torch
from children import script, survey

from minimizer.engine.child.executor import Executor
from minimizer.engine.child.protocol import Checked
from minimizer.inside.referee.referee import Verdict, judge
from minimizer.inside.values import snapshot
from minimizer.inside.watch.coverage import Instances
from minimizer.inside.watch.largest import Largest, farthest

LAYERS = """
    import torch

    class Block(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.up = torch.nn.Linear(4, 4)
            self.register_buffer("scale", torch.ones(()))
        def forward(self, x):
            return x + self.up(x) * self.scale
"""


def checked(child: Executor, home: Path, text: str) -> Checked:
    """Of a script that is healthy."""
    found = survey(child, script(home, text))
    assert found.finished is not None and found.finished.exception is None, found.log
    return found.finished.checked


def test_equal_modules_that_share_a_graph_are_told_apart(child: Executor, home: Path) -> None:
    text = f"""{LAYERS}
    first, layers = Block(), [torch.compile(Block(), backend="eager") for _ in range(10)]
    for _ in range(3):
        x = first(torch.ones(2, 4))
        for layer in layers:
            x = layer(x)
        x.sum().backward()
    """
    seen = checked(child, home, text)
    assert (seen.frames, seen.graphs, seen.calls, seen.planned, seen.calls_made) == (1, 1, 8, 8, 30)
    assert seen.instances == 10
    assert seen.not_compared == [
        "22 calls after the first 8 of a graph: only those are compared (--steps)",
        "2 of 10 sets of parameters: equal modules share a graph, and only its first 8 calls are compared (--steps)",
        f"gradients of {8 - seen.backward} calls of graph 0: none had come by its next call",
    ]


def test_all_graphs_of_a_frame_are_counted_and_nothing_is_left_out_of_a_short_script(
    child: Executor, home: Path
) -> None:
    text = """
    import torch
    f = torch.compile(lambda x: x + 1, backend="eager", dynamic=False)
    for n in (2, 3, 2):
        f(torch.ones(n))
    """
    seen = checked(child, home, text)
    assert (seen.frames, seen.graphs, seen.calls, seen.planned, seen.calls_made) == (1, 2, 3, 3, 3)
    assert (seen.instances, seen.not_compared) == (None, [])
    assert seen.largest is not None
    assert (seen.largest.absolute, seen.largest.reason) == (0.0, "equal to the bit")


def test_the_largest_difference_is_placed_by_the_notes_of_the_graph(child: Executor, home: Path) -> None:
    text = f"""{LAYERS}
    def off(gm, example):
        return lambda *args: [out + 2**-20 for out in gm(*args)]

    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = torch.nn.ModuleList(Block() for _ in range(2))
        def forward(self, x):
            for layer in self.layers:
                x = layer(x)
            return x

    with torch.no_grad():
        torch.compile(Net(), backend=off)(torch.ones(2, 4))
    """
    largest = checked(child, home, text).largest
    assert largest is not None and largest.absolute is not None
    assert (largest.module, largest.op, largest.reason) == ("layers.1", "aten.add", "within the tolerance of float32")
    assert 2**-21 < largest.absolute < 2**-19


def test_a_wrong_gradient_within_the_tolerance_is_the_largest_difference_of_its_parameter(
    child: Executor, home: Path
) -> None:
    text = f"""{LAYERS}
    class Off(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x.clone()
        @staticmethod
        def backward(ctx, grad):
            return grad * (1 + 2**-21)

    def off(gm, example):
        return lambda *args: [Off.apply(out) for out in gm(*args)]

    torch.compile(Block(), backend=off)(torch.full((2, 4), 8.0)).sum().backward()
    """
    largest = checked(child, home, text).largest
    assert largest is not None and largest.absolute
    assert (largest.module, largest.op) == ("up.weight", "")
    assert largest.reason == "a gradient: within the tolerance of float32"


def test_python_state_that_traced_code_touches_is_named(child: Executor, home: Path) -> None:
    text = """
    import torch
    log, rates = [], {"rate": 2.0}
    def counted():
        calls = 0
        def f(x):
            nonlocal calls
            calls += 1
            log.append(calls)
            return x * rates["rate"]
        return f
    torch.compile(counted(), backend="eager")(torch.ones(2))
    """
    assert checked(child, home, text).not_compared == [
        "Python state that traced code changes (calls, log): only what graphs compute is compared",
        "Python state that traced code reads (rates): only what graphs compute is compared",
    ]


def test_processes_of_the_script_are_named_and_arguments_of_a_call_are_no_state(child: Executor, home: Path) -> None:
    text = """
    import subprocess
    import sys
    import torch
    subprocess.run([sys.executable, "-c", "pass"], check=True)
    torch.compile(torch.nn.Sequential(torch.nn.Linear(2, 2)), backend="eager")(torch.ones(2))
    """
    assert checked(child, home, text).not_compared == [
        "processes that the script started, 1 of them: only its own is looked at"
    ]


def test_a_call_that_cannot_be_compared_is_named_with_its_reason(child: Executor, home: Path) -> None:
    text = """
    import torch
    pool = torch.ones(3)

    @torch.library.custom_op("lib::pooled", mutates_args=())
    def pooled(x: torch.Tensor) -> torch.Tensor:
        if x.data_ptr() != pool.data_ptr():
            raise RuntimeError("no tensor of the pool")
        return x + 1

    pooled.register_fake(lambda x: torch.empty_like(x))
    f = torch.compile(lambda x: torch.ops.lib.pooled(x))
    f(pool), f(pool)
    """
    seen = checked(child, home, text)
    assert (seen.calls, seen.planned, seen.calls_made, seen.largest) == (0, 2, 2, None)
    assert seen.not_compared == ["2 calls of graph 0: eager cannot run it on copies of its inputs (RuntimeError)"]


def test_modules_that_are_gone_are_not_mistaken_for_new_ones() -> None:
    """The memory of a module that is gone is given to the next one, and its identity with it."""
    instances = Instances()
    for _ in range(5):
        instances.saw([torch.nn.Parameter(torch.ones(1))], compared=False)
    kept = [torch.nn.Parameter(torch.ones(1))]
    instances.saw(kept, compared=False)
    instances.saw(kept, compared=True)
    assert (instances.count, instances.not_compared) == (6, 5)


def test_a_difference_beyond_the_tolerance_says_that_float64_shows_eager_as_far_off() -> None:
    def f(x: torch.Tensor) -> torch.Tensor:
        return x + 100.0 - 100.0

    graph = torch.fx.symbolic_trace(f)
    x = torch.arange(8, dtype=torch.bfloat16) / 4 + 1
    once_rounded = (x.float() + 100.0 - 100.0).bfloat16()  # as a fused kernel computes it
    verdict = judge(graph, [x], snapshot.rng_state(), graph(x), [x], once_rounded, [x])
    largest = Largest()
    largest.look(graph.graph, (graph(x), [x]), (once_rounded, [x]), verdict)
    assert largest.to_json() == {
        "module": "", "op": "aten.sub", "absolute": 0.25, "relative": 0.25, "reason": "float64 shows eager as far off",
    }  # fmt: skip


def test_what_no_number_says_is_no_largest_difference() -> None:
    nan, inf = float("nan"), float("inf")
    expected, actual = torch.tensor([nan, 1.0, inf, 0.0]), torch.tensor([2.0, 1.5, 3.0, 0.0])
    assert farthest(expected, actual) == (0.5, 0.5)
    assert farthest(torch.zeros(2), torch.tensor([0.0, 0.5])) == (0.5, None)
    assert farthest(torch.ones(0), torch.ones(0)) == (0.0, 0.0)
    assert farthest(torch.tensor([1, 2]), torch.tensor([1, 4])) == (2.0, 1.0)


def test_a_shape_that_is_wrong_is_no_largest_difference() -> None:
    largest = Largest()
    graph = torch.fx.symbolic_trace(lambda x: x + 1)
    largest.look(graph.graph, (torch.ones(2), []), (torch.ones(3), []), Verdict())
    assert largest.to_json() is None
