"""What a survey tells of its coverage: calls made and compared, module instances, what was left out, the largest difference."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

import pytest
import torch
from children import script, survey
from healthy_verdict import report_of_run, says_open

from minimizer.engine.child.executor import Executor
from minimizer.engine.child.protocol import Checked
from minimizer.inside import messages
from minimizer.inside.referee.call import Call, Side
from minimizer.inside.referee.comparison import Judged
from minimizer.inside.referee.referee import judge
from minimizer.inside.referee.verdict import Verdict
from minimizer.inside.watch.instances import Instances
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
    found = survey(child, script(home, text)).finished
    assert found is not None
    seen = found.checked
    assert (seen.frames, seen.graphs, seen.calls, seen.planned, seen.calls_made) == (1, 1, 30, 30, 30)
    assert (seen.instances, seen.backward, seen.not_compared) == (10, 30, [])
    (calls,) = found.calls
    assert calls.keys == [*range(10)] * 3
    assert calls.watched == calls.compared == calls.backward == [*range(30)]


def test_of_many_calls_the_first_eight_and_every_doubling_are_compared(child: Executor, home: Path) -> None:
    text = """
    import torch
    f = torch.compile(lambda x: x + 1, backend="eager")
    for _ in range(100):
        f(torch.ones(2))
    """
    found = survey(child, script(home, text)).finished
    assert found is not None
    assert found.calls[0].compared == [*range(8), 15, 31, 63]
    assert (found.checked.planned, found.checked.calls_made) == (100, 100)


@pytest.mark.parametrize(
    ("asked", "compared"),
    [({"steps": 3}, [0, 1, 2]), ({"calls": {"0": [4, 99]}}, [4, 99]), ({"calls": {}}, [])],
    ids=["by steps", "by a list", "none"],
)
def test_the_calls_that_were_asked_for_are_compared_and_no_others(
    child: Executor, home: Path, asked: dict[str, Any], compared: list[int]
) -> None:
    text = """
    import torch
    f = torch.compile(lambda x: x + 1, backend="eager")
    for _ in range(100):
        f(torch.ones(2))
    """
    found = survey(child, script(home, text), **asked).finished
    assert found is not None
    assert found.calls[0].compared == compared


SITUATIONS = """
    import torch
    f = torch.compile(lambda x, y: x + y, backend="eager", dynamic=True)
    memory = torch.zeros(4096)
    assert memory.data_ptr() % 64 == 0
    def call(length, first=0, second=2048):
        f(memory[first:first + length], memory[second:second + length])
    call(1000); call(1001); call(1023)      # one bucket of sizes
    call(1024)                              # the next
    call(1000, first=1)                     # not aligned
    call(1000, second=992)                  # overlap, and aligned as before
    call(1000)                              # as the first
"""


def test_sizes_alignment_and_overlap_make_a_call_another_one(child: Executor, home: Path) -> None:
    found = survey(child, script(home, SITUATIONS)).finished
    assert found is not None
    assert [calls.keys for calls in found.calls] == [[0, 0, 0, 1, 2, 3, 0]]
    assert found.calls[0].compared == [*range(7)]


def test_a_held_call_names_its_module_from_the_root(child: Executor, home: Path) -> None:
    text = f"""{LAYERS}
    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = torch.nn.ModuleList(torch.compile(Block(), backend=off) for _ in range(4))
        def forward(self, x):
            for layer in self.layers:
                x = layer(x)
            return x

    def off(gm, example):
        third = model.layers[2].up.weight
        return lambda *args: [out + any(arg is third for arg in args) for out in gm(*args)]

    model = Model()
    model(torch.ones(2, 4))
    """
    with contextlib.closing(survey(child, script(home, text))) as found:
        assert found.held is not None and found.held.program is not None
        assert found.held.failure.kind == "wrong_output"
        modules = [node["module"] for node in found.held.program["nodes"]]
    assert modules == ["layers.2.up", "layers.2", "layers.2"]


@pytest.mark.parametrize("trains", [True, False], ids=["training", "evaluation without no_grad"])
def test_a_backward_is_waited_for_as_long_as_it_can_come(child: Executor, home: Path, trains: bool) -> None:
    text = f"""{LAYERS}
    layers = [torch.compile(Block(), backend="eager") for _ in range(3)]
    for step in range(2):
        x = torch.ones(2, 4)
        for layer in layers:
            x = layer(x)
        if {trains}:
            x.sum().backward()
    """
    seen = checked(child, home, text)
    assert (seen.calls, seen.backward) == (6, 6 if trains else 0)
    assert seen.not_compared == []


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


NORM = """
import torch
x = {x}
torch.compile({function})(x)
"""
GROUPS = "lambda x: torch.nn.functional.group_norm(x, 2)"


@pytest.mark.parametrize(
    ("x", "function", "right"),
    [
        (
            "torch.full((2, 4, 16, 16), 1000.3)",
            GROUPS,
            "eager",
        ),  # no variance: what is left of a mean is divided by nothing
        ("torch.linspace(-1, 1, 2048).view(2, 4, 16, 16)", GROUPS, ""),
    ],
    ids=["without a variance", "its healthy twin"],
)
def test_the_side_that_agrees_with_float64_is_told_where_the_other_does_not(
    x: str, function: str, right: str, child: Executor, home: Path
) -> None:
    largest = checked(child, home, NORM.format(x=x, function=function)).largest
    assert largest is not None and largest.right == right
    assert (largest.reason == "eager is as far from float64") <= (right == "compiled")


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
    assert checked(child, home, text).state == [
        "Python state that traced code changes (calls, log): only what graphs compute is compared",
        "Python state that traced code reads (rates): only what graphs compute is compared",
    ]


def test_state_that_is_read_through_a_class_is_named_by_local_names(child: Executor, home: Path) -> None:
    text = """
    import torch
    class Settings:
        rates = {"rate": 2.0}
    settings = Settings()
    def f(x, settings):
        return x * type(settings).rates["rate"]
    torch.compile(f, backend="eager")(torch.ones(2), settings)
    """
    (read,) = checked(child, home, text).state
    assert "rates" in read and "L[" not in read


def test_state_of_an_imported_module_is_named_by_its_path(child: Executor, home: Path) -> None:
    (home / "taps").mkdir()
    (home / "taps" / "active.py").write_text(
        "class Tap:\n    count = 0\ntap = Tap()\ndef tapped(x):\n    tap.count = tap.count + 1\n    return x * 2\n"
    )
    text = """
    import torch
    from taps import active
    torch.compile(lambda x: active.tapped(x), backend="eager")(torch.ones(2))
    """
    (changed,) = checked(child, home, text).state
    assert changed.startswith("Python state that traced code changes (taps.active.tap.count):")


@pytest.mark.needs_excuse("child_processes")
@pytest.mark.fault_behind("child_processes")
def test_processes_of_the_script_are_named_and_arguments_of_a_call_are_no_state(child: Executor, home: Path) -> None:
    text = """
    import subprocess
    import sys
    import torch
    FAULTY = "import torch; wrong = lambda gm, example: lambda *args: [out + 1 for out in gm(*args)]; "
    FAULTY += "assert torch.compile(lambda x: x + 1, backend=wrong)(torch.ones(1)).item() == 3"
    subprocess.run([sys.executable, "-c", FAULTY], check=True)
    torch.compile(torch.nn.Sequential(torch.nn.Linear(2, 2)), backend="eager")(torch.ones(2))
    """
    seen = checked(child, home, text)
    assert seen.not_compared == ["child processes of the script (1): only its own process is observed"]
    assert says_open(report_of_run(seen), "child_processes")


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
    gone = [instances.number([torch.nn.Parameter(torch.ones(1))]) for _ in range(5)]
    kept = [torch.nn.Parameter(torch.ones(1))]
    assert [*gone, instances.number(kept), instances.number(kept)] == [0, 1, 2, 3, 4, 5, 5]
    assert instances.number([]) is None


def test_a_difference_beyond_the_tolerance_says_that_float64_shows_eager_as_far_off() -> None:
    def f(x: torch.Tensor) -> torch.Tensor:
        return x + 100.0 - 100.0

    graph = torch.fx.symbolic_trace(f)
    x = torch.arange(8, dtype=torch.bfloat16) / 4 + 1
    once_rounded = (x.float() + 100.0 - 100.0).bfloat16()  # as a fused kernel computes it
    call = Call.now(graph, [x])
    expected, actual = Side(graph(x), [x]), Side(once_rounded, [x])
    largest = Largest()
    largest.look(graph.graph, Judged(call, expected, actual, judge(call, expected, actual)))
    assert largest.found == messages.Largest(
        "", "aten.sub", 0.25, 0.25, "eager is as far from float64", right="compiled"
    )


def test_the_largest_difference_is_not_called_legal_where_it_is_the_fault() -> None:
    graph = torch.fx.symbolic_trace(lambda x: (x.sin(), x + 1))
    call = Call.now(graph, [x := torch.rand(64)])
    expected, actual = call.run(graph), Side([x.sin() + 0.25, x + 1])
    largest = Largest()
    largest.look(graph.graph, Judged(call, expected, actual, judge(call, expected, actual)))
    assert largest.found is not None
    assert (largest.found.op, largest.found.reason) == ("aten.sin", "it is the fault")


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
    call = Call.now(graph, [torch.ones(2)])
    largest.look(graph.graph, Judged(call, Side(torch.ones(2)), Side(torch.ones(3)), Verdict()))
    assert largest.found is None


EACH = f"""{LAYERS}
    def wrong(gm, example):
        for node in gm.graph.nodes:
            if node.target is torch.relu:
                node.target = lambda x: torch.relu(x) + (x > -0.5)
        gm.recompile()
        return gm
    class Gated(Block):
        def __init__(self, level):
            super().__init__()
            self.level = torch.nn.Buffer(torch.tensor(level))
        def forward(self, x):  # what is added to -1 is nothing
            return super().forward(x) + torch.relu(x.detach().abs() * self.level - (1 - self.level))
    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = torch.nn.ModuleList(torch.compile(Gated(float(n in (1, 2))), backend=wrong) for n in range(5))
        def forward(self, x):
            for layer in self.layers:
                x = layer(x)
            return x
    model = Model()
    for _ in range(2):
        model(torch.ones(2, 4)).sum().backward()
"""


def test_a_run_that_goes_on_tells_which_of_equal_modules_fail(child: Executor, home: Path) -> None:
    seen = survey(child, script(home, EACH), each=True)
    found = seen.finished
    assert found is not None and found.exception is None, (seen.log, seen.held, seen.timed_out)
    rows = {row.name: row for row in found.instances}
    assert [name for name, row in rows.items() if row.failed == {"wrong_output": 2}] == ["layers.1", "layers.2"]
    assert [name for name, row in rows.items() if not row.failed] == ["layers.0", "layers.3", "layers.4"]
    assert {row.calls for row in rows.values()} == {2}
    # The first one's input needs no gradient: it has a graph of its own, which calls the same.
    assert [row.graphs for row in rows.values()] == [[0, 1]] * 5


def test_the_first_call_that_fails_names_the_instance_it_belongs_to(child: Executor, home: Path) -> None:
    found = survey(child, script(home, EACH))
    assert found.held is not None
    found.close()
    assert found.held.failure.instance == "layers.1"


def test_a_timed_run_tells_of_which_modules_something_ran_compiled(child: Executor, home: Path) -> None:
    text = f"""{LAYERS}
    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = torch.nn.ModuleList(Block() for _ in range(3))
        def forward(self, x):
            for layer in self.layers:
                x = layer(x)
            return x
    model = Model()
    BREAK
    torch.compile(model, backend="eager")(torch.ones(2, 4))
    """
    whole = survey(child, script(home, text.replace("BREAK", "")), measure=True, values=False).finished
    broken = "model.layers[0].up = torch.compiler.disable(model.layers[0].up)"
    other = survey(child, script(home, text.replace("BREAK", broken)), measure=True, values=False).finished
    assert whole is not None and whole.health is not None and other is not None and other.health is not None
    assert whole.modules == [f"layers.{n}{part}" for n in range(3) for part in (".up", "")]
    assert (whole.health.breaks, whole.checked.graphs) == (0, 1)
    assert other.health.breaks > 0 and other.checked.graphs > 0
    assert "layers.0.up" not in other.modules and "layers.0" in other.modules
