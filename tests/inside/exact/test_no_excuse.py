"""Each rule by which a difference of exact runs is no evidence: a healthy script that needs it, and a fault that it must not hide."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest
from children import script

from minimizer.engine.between.answer import BY_LIBRARY, Answer
from minimizer.engine.between.exact_runs import ExactRuns
from minimizer.engine.child.executor import Executor

FAULT = """
import collections
order = collections.OrderedDict(a=1, b=2)
@torch.compile
def touch(order, x):
    order.move_to_end("a")
    return x + 1
"""
"""A change of order that Dynamo loses."""
BROKEN = "touch(order, torch.ones(2))\n"

RULES = {
    "memory_time_and_garbage": """
        import gc, resource, sys, time, tracemalloc
        from time import perf_counter
        tracemalloc.start()
        log, box = [], [1]
        step = torch.compile(lambda x: x.sin())
        begun = perf_counter()
        for _ in range(3):
            step(torch.ones(4))
            usage = resource.getrusage(resource.RUSAGE_SELF)
            log.append((usage.ru_maxrss // 1024, int(10 * (time.time() - begun)), gc.get_count(), gc.collect()))
            held = sys.getrefcount(box), tracemalloc.get_traced_memory()[0] // 1000
            FAULT
        seconds = round(perf_counter() - begun, 1)
    """,
    "loop_by_the_clock": """
        import time
        steps, stamps = 0, {"n": 0}
        step = torch.compile(lambda x: x.sin())
        until = time.monotonic() + 0.2
        while time.monotonic() < until:
            step(torch.ones(4))
            steps += 1
            stamps["at"], stamps["n"] = time.time(), steps
            time.sleep(0.02)
            FAULT
    """,
    "profiler": """
        step = torch.compile(lambda x: x.sin())
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as found:
            for _ in range(2):
                step(torch.ones(4))
                FAULT
        table = found.key_averages().table(row_limit=5)
        rows = len(found.key_averages())
    """,
    "compile_counters_and_explain": """
        step = torch.compile(lambda x: x.sin())
        step(torch.ones(4))
        FAULT
        graphs = dict(torch._dynamo.utils.counters["stats"])
        times = torch._dynamo.utils.compile_times()
        breaks = torch._dynamo.explain(lambda x: x + 1)(torch.ones(2)).graph_break_count
        count = torch._dynamo.explain(lambda x: x + 1)(torch.ones(2)).graph_count
    """,
    "finalizer_and_weak_parent": """
        import weakref
        closed = []
        class Writer:
            def __init__(self, name):
                self.name = name
            def __del__(self):
                closed.append(self.name)
        class Child:
            def __init__(self, parent):
                self.parent = weakref.ref(parent)
        step = torch.compile(lambda x, w: x.sin())
        for number in range(3):
            writer = Writer(number)
            child = Child(writer)
            step(torch.ones(4), writer)
            FAULT
            alive = child.parent() is not None
    """,
    "stance_of_the_script": """
        step = torch.compile(lambda x: x.sin())
        step(torch.ones(4))
        FAULT
        with torch.compiler.set_stance("force_eager"):
            step(torch.ones(4))
        torch.compiler.set_stance("eager_on_recompile")
        step(torch.ones(2, 2, 2))
    """,
    "fake_kernel_with_a_counter": """
        fakes = {"n": 0}
        @torch.library.custom_op("excuse::twice", mutates_args=())
        def twice(x: torch.Tensor) -> torch.Tensor:
            return x * 2
        @twice.register_fake
        def _(x):
            fakes["n"] += 1
            return torch.empty_like(x)
        step = torch.compile(lambda x: twice(x) + 1)
        for size in (2, 3):
            step(torch.ones(size))
        FAULT
    """,
    "checkpointed_dropout": """
        from torch.utils.checkpoint import checkpoint
        torch.manual_seed(0)
        model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Dropout())
        step = torch.compile(lambda x: checkpoint(model, x, use_reentrant=False).sum())
        for _ in range(2):
            step(torch.randn(2, 4)).backward()
        FAULT
    """,
    "ids_as_keys": """
        store, last = {}, None
        class Row:
            def __init__(self):
                self.n = 1
        rows = [Row() for _ in range(3)]
        step = torch.compile(lambda x: x.sin())
        for row in rows:
            step(torch.ones(4))
            store[id(row)], last = row, id(row)
        FAULT
    """,
    "random_bytes": """
        import os, secrets, uuid
        step = torch.compile(lambda x: x.sin())
        for _ in range(2):
            step(torch.ones(4))
            run = {"name": uuid.uuid4().hex, "key": secrets.token_hex(4), "salt": os.urandom(4), "n": 1}
        FAULT
    """,
}
LIBRARY = {
    "decomposed": """
        x = torch.arange(1, 65) / 7
        step = torch.compile(lambda x, a, b: torch.addcdiv(x, a, b, value=0.3))
        y = step(x, x.flip(0), x + 0.3)
        FAULT
    """,
    "compiled_adam": """
        torch.manual_seed(0)
        model = torch.nn.Linear(7, 9)
        optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
        step = torch.compile(optimizer.step)
        for _ in range(2):
            model(torch.randn(5, 7)).square().mean().backward()
            step()
        FAULT
    """,
}


def compared(child: Executor, home: Path, text: str) -> Answer:
    return ExactRuns(child, script(home, text), timeout=200).compare(text)


def healthy(text: str) -> str:
    return "import torch\n" + textwrap.dedent(text).replace("FAULT", "pass")


def faulty(text: str) -> str:
    return f"import torch\n{FAULT}{textwrap.dedent(text).replace('FAULT', BROKEN.strip())}"


@pytest.mark.quality("exact runs")
@pytest.mark.needs_excuse("exact_moves", "exact_volatile", "exact_compiler_writes")
@pytest.mark.parametrize("name", RULES)
def test_a_healthy_script_that_needs_the_rule_is_quiet_to_its_end(child: Executor, home: Path, name: str) -> None:
    answer = compared(child, home, healthy(RULES[name]))
    assert (answer.found, answer.aside, answer.ended, answer.not_compared) == (None, "", "", ())


@pytest.mark.fault_behind("exact_moves", "exact_volatile", "exact_compiler_writes")
@pytest.mark.parametrize("name", RULES)
@pytest.mark.examples(4)
def test_a_fault_behind_the_rule_is_found(child: Executor, home: Path, name: str) -> None:
    found = compared(child, home, faulty(RULES[name])).found
    assert found is not None and "order" in found.difference.first.path


@pytest.mark.quality("exact runs")
@pytest.mark.needs_excuse("exact_library")
@pytest.mark.fault_behind("exact_library")
@pytest.mark.parametrize("name", LIBRARY)
def test_what_dynamo_computes_otherwise_is_no_fault_and_hides_none(child: Executor, home: Path, name: str) -> None:
    answer = compared(child, home, healthy(LIBRARY[name]))
    assert (answer.found, answer.ended, answer.not_compared) == (None, "", (BY_LIBRARY,))
    found = compared(child, home, faulty(LIBRARY[name])).found
    assert found is not None and "order" in found.difference.first.path


def test_what_a_fake_kernel_writes_is_counted(child: Executor, home: Path) -> None:
    answer = compared(child, home, healthy(RULES["fake_kernel_with_a_counter"]))
    written = [one.object.partition("[")[0] for one in answer.excused if one.rule == "exact_compiler_writes"]
    assert set(written) == {"fakes"}


def test_another_number_of_calls_is_a_fault(child: Executor, home: Path) -> None:
    text = """
        import collections, torch
        class Window:
            def __init__(self):
                self.ranks, self.full = collections.deque(maxlen=3), False
        window = Window()
        @torch.compile
        def step(x, rank):
            window.ranks.append(rank)
            window.full = len(window.ranks) == 3 and window.ranks[0] > 1
            return x + 1
        for number in range(1, 12):
            step(torch.ones(2), number)
            if window.full:
                break
    """
    found = compared(child, home, textwrap.dedent(text)).found
    assert found is not None and found.difference.first.path.startswith("window")


def test_a_call_that_is_run_without_the_compiler_hears_that_it_is_compiled(child: Executor, home: Path) -> None:
    """Or no run would show that it is the one to blame."""
    text = """
        import os, torch
        from torch.compiler import is_compiling
        os.environ["FACTOR"] = "1"
        @torch.compile
        def f(x):
            return x * int(os.getenv("FACTOR")) + (5 if is_compiling() else 7)
        f(torch.ones(1))
        os.environ["FACTOR"] = "3"
        f(torch.ones(1))
    """
    found = compared(child, home, textwrap.dedent(text)).found
    assert found is not None and found.call == 2


def test_a_small_difference_under_autocast_is_a_fault(child: Executor, home: Path) -> None:
    text = """
        import torch
        torch.manual_seed(0)
        net = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.GELU(), torch.nn.Linear(8, 8))
        model = torch.compile(net)
        shift = 0.01 * torch.randn(8)
        def steer(module, args, out):
            return out + shift
        for number in range(3):
            if number == 1:
                net[0].register_forward_hook(steer)
            with torch.no_grad(), torch.autocast("cpu", dtype=torch.bfloat16):
                model(torch.ones(2, 8))
    """
    found = compared(child, home, textwrap.dedent(text)).found
    assert found is not None and found.call == 2


OTHER = """
import torch
{fault}
def scaled(x, y):
    return (x + y) * 0.3
@torch.compiler.substitute_in_graph(scaled)
def traced(x, y):
    return {traced}
step = torch.compile(lambda x, y: scaled(x, y))
x = torch.arange(40) / 7
y = step(x, x.flip(0))
total = y.sum().item()
{broken}
"""
"""A function that Dynamo traces as another one."""


@pytest.mark.needs_excuse("exact_arithmetic")
@pytest.mark.fault_behind("exact_arithmetic")
def test_other_roundings_of_a_graph_are_shown_and_counted_and_hide_no_fault(child: Executor, home: Path) -> None:
    text = OTHER.format(fault="", traced="x * 0.3 + y * 0.3", broken="")
    answer = compared(child, home, text)
    assert (answer.found, answer.ended) == (None, "")
    assert "exact_arithmetic" in {one.rule for one in answer.excused}
    behind = compared(child, home, OTHER.format(fault=FAULT, traced="x * 0.3 + y * 0.3", broken=BROKEN)).found
    assert behind is not None and "order" in behind.difference.first.path


def test_a_constant_that_is_wrong_by_little_is_no_other_rounding(child: Executor, home: Path) -> None:
    found = compared(child, home, OTHER.format(fault="", traced="(x + y) * 0.30002", broken="")).found
    assert found is not None and found.call == 1


CHECKPOINTED = """
import torch
from torch.utils.checkpoint import checkpoint
priority = {"caption": 1, "vqa": 1}
@torch.compile
def scaled(x):
    return (x.sin() * (1.0 if list(priority)[0] == "caption" else 100.0)).exp()
x = torch.ones(3, requires_grad=True)
for step in range(2):
    loss = checkpoint(scaled, x, use_reentrant=False).sum()
    FAULT
    loss.backward()
"""
"""A region whose forward is made again in the backward."""


@pytest.mark.needs_excuse("exact_recomputed")
@pytest.mark.fault_behind("exact_recomputed")
def test_a_call_that_a_checkpoint_makes_again_is_no_fault_and_hides_none(child: Executor, home: Path) -> None:
    answer = compared(child, home, CHECKPOINTED.replace("FAULT", "pass"))
    assert (answer.found, answer.ended) == (None, "")
    assert "exact_recomputed" in {one.rule for one in answer.excused}
    found = compared(child, home, CHECKPOINTED.replace("FAULT", 'priority["caption"] = priority.pop("caption")')).found
    assert found is not None and "grad" in found.difference.first.path


HANDLED = """
import torch
def handled(x):
    try:
        return OPERATION
    except HANDLER:
        return x * 1.0
step = torch.compile(handled)
step(INPUT)
"""
"""An error of eager's kernel that the script handles, which a recorded graph raises behind the handler."""


@pytest.mark.needs_excuse("exact_backend")
@pytest.mark.fault_behind("exact_backend")
def test_an_error_of_the_backend_eager_alone_is_left_to_the_graphs_and_hides_no_lost_handler(
    child: Executor, home: Path
) -> None:
    resized = "torch.nn.functional.interpolate(x, size=(2, 2), mode='bilinear')"
    parts = {
        "OPERATION": resized,
        "HANDLER": "NotImplementedError",
        "INPUT": "torch.ones(1, 1, 1, 1, dtype=torch.int32)",
    }
    answer = compared(child, home, filled(parts))
    assert answer.found is None
    parts = {"OPERATION": "torch.linalg.cholesky(x)", "HANDLER": "torch.linalg.LinAlgError", "INPUT": "-torch.eye(2)"}
    found = compared(child, home, filled(parts)).found
    assert found is not None and found.difference.first.path == "raised"
    text = filled(parts).replace("step(-torch.eye(2))", "for sign in (1, 1, -1):\n    step(sign * torch.eye(2))")
    found = compared(child, home, text).found  # at a call with a full look in further runs only
    assert found is not None and (found.call, found.difference.first.path) == (3, "raised")


REVERSED = """
import torch
torch._dynamo.config.compiled_autograd = True
class Reversed(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.view_as(x)
    @staticmethod
    def backward(ctx, grad):
        return -grad
torch.manual_seed(0)
first, second = torch.nn.Linear(3, 4), torch.nn.Linear(4, 2)
@torch.compile
def learn(x):
    y = first(x)
    loss = second(y).sum() + second(Reversed.apply(y)).square().sum()
    loss.backward()
    return loss.detach()
for _ in range(2):
    learn(torch.ones(5, 3))
"""
"""Gradients that require gradients themselves, as compiled autograd leaves them where the backend is eager, and only there."""


@pytest.mark.quality("exact runs")
@pytest.mark.needs_excuse("exact_backend")
@pytest.mark.fault_behind("exact_backend")
def test_gradients_that_require_gradients_are_no_fault_where_the_scripts_own_backend_leaves_none(
    child: Executor, home: Path
) -> None:
    answer = compared(child, home, REVERSED)
    assert answer.found is None
    assert {one.rule for one in answer.excused} == {"exact_backend"}
    found = compared(child, home, REVERSED.replace("@torch.compile", '@torch.compile(backend="eager")')).found
    assert found is not None and found.difference.first.fields == ("requires_grad",)


MOVED = """
import torch
torch._dynamo.config.reorderable_logging_functions.add(print)
@torch.library.custom_op("moved::twice", mutates_args=())
def twice(x: torch.Tensor) -> torch.Tensor:
    print("twice")
    return x * 2
@twice.register_fake
def _(x):
    return torch.empty_like(x)
@torch.compile
def step(x):
    print("begin")
    x = twice(x)
    for word in WORDS:
        print(word)
    return x + 1
for _ in range(2):
    step(torch.ones(2))
"""
"""Prints that wait for the end of a graph with an operator that prints at once."""


@pytest.mark.needs_excuse("exact_reordered")
@pytest.mark.fault_behind("exact_reordered")
def test_prints_that_the_script_has_moved_are_no_fault_and_hide_none(child: Executor, home: Path) -> None:
    answer = compared(child, home, MOVED.replace("WORDS", '("left", "right")'))
    assert (answer.found, answer.ended) == (None, "")
    assert [one.object for one in answer.excused if one.rule == "exact_reordered"] == ["printed text[0]"]
    wrong = '("left", "right") if torch.compiler.is_compiling() else ("right", "left")'
    found = compared(child, home, MOVED.replace("WORDS", wrong)).found
    assert found is not None and found.difference.first.path.startswith("printed text[")


def test_an_error_of_pythons_own_kind_that_dynamo_raises_is_no_lost_handler(child: Executor, home: Path) -> None:
    """It ends the script, as any error of the compiler does."""
    text = """
        import torch
        from torch._dynamo import guards

        def broken(self, *args, **kwargs):
            raise IndexError("list index out of range")

        guards.CheckFunctionManager.__init__ = broken
        f = torch.compile(lambda x: x.sin())
        for _ in range(2):
            f(torch.ones(2))
    """
    answer = compared(child, home, textwrap.dedent(text))
    assert (answer.found, answer.aside) == (None, "a run of the script ended early (runtime_error)")


def test_an_error_that_eager_raises_as_well_ends_no_comparison(child: Executor, home: Path) -> None:
    text = """
        import torch

        f = torch.compile(lambda x: x.sum(5))
        for _ in range(2):
            try:
                f(torch.ones(2))
            except IndexError:
                pass
        torch.compile(lambda x: x + 1)(torch.ones(2))
    """
    answer = compared(child, home, textwrap.dedent(text))
    assert (answer.found, answer.ended, answer.aside) == (None, "", "")


def filled(parts: dict[str, str]) -> str:
    text = HANDLED
    for name, value in parts.items():
        text = text.replace(name, value)
    return text
