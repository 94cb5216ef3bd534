"""Values that only a sequence of calls makes wrong become a script of those calls; what rounding or noise makes differ does not."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest
import torch
from children import SECONDS
from flat import program_of, traced

from minimizer.engine.child.executor import Executor
from minimizer.engine.child.outcome import Ending
from minimizer.engine.levels.parting import is_like
from minimizer.engine.outer.checks import read_by_check
from minimizer.engine.outer.paired import ROUNDED, control
from minimizer.engine.outer.parting import Parted, smallest_parting
from minimizer.engine.outer.program import BACKWARD, GRAPH
from minimizer.engine.outer.runs import compared
from minimizer.engine.outer.write import graph_function
from minimizer.engine.program.model import Program
from minimizer.engine.reduce.python import Rerun
from minimizer.vocabulary import Kind

WINDOWS = """
    @torch.compile(backend="aot_eager")
    def smooth(window, neighbour):
        window.mul_(0.5)
        return window + neighbour.sum()

    signal = torch.arange(64.0)
    total = smooth(signal[0:8].clone(), signal[8:16].clone()).sum()
    for start in range(0, 12, 4):
        total += smooth(signal[start : start + 8], signal[start + 4 : start + 12]SHARED).sum()
"""
OVERLAPPING, APART = WINDOWS.replace("SHARED", ""), WINDOWS.replace("SHARED", ".clone()")
LABELS = """
    def stale(graph, inputs):
        calls = []

        def run(*args):
            calls.append(1)
            return tuple(one * 2 for one in graph(*args)) if len(calls) > 1 else graph(*args)

        return run

    @torch.compile(backend=BACKEND)
    def score(table, labels):
        return table[labels].sum()

    torch.manual_seed(2)
    table, labels = torch.randn(9, 4), torch.randint(0, 9, (40,))
    for _ in range(3):
        table = table + score(table, labels) * 0.01
"""

LATE = """
    def pooled(graph, inputs):
        pool = []

        def run(*args):
            pool.append(graph(*args))
            return pool[-3] if len(pool) > 2 else pool[-1]

        return run

    @torch.compile(backend=pooled)
    def step(x, scale):
        return (x * scale).tanh()

    torch.manual_seed(0)
    x, w = torch.randn(8), torch.randn(8, 8)
    for n in range(5):
        x = step(x @ w, torch.tensor(1.0 + n))
"""
REPLAYED = """
    from functorch.compile import make_boxed_func
    from torch._dynamo.backends.common import aot_autograd

    def plain(graph, inputs):
        return make_boxed_func(graph.forward)

    def replayed(graph, inputs):
        kept = []

        def run(*args):
            kept.append(graph(*args))
            return kept[-2] if len(kept) > 1 else kept[-1]

        return make_boxed_func(run)

    torch.manual_seed(0)
    weight = torch.randn(4, 4, requires_grad=True)
    backend = aot_autograd(fw_compiler=plain, bw_compiler=replayed)
    f = torch.compile(lambda x: (x @ weight).tanh(), backend=BACKEND)
    for _ in range(3):
        (f(torch.randn(2, 4)) - 1).square().mean().backward()
"""
OTHERWISE = """
    def faulty(graph, inputs):
        calls = []

        def run(*args):
            calls.append(1)
            (result,) = graph(*args)
            if len(calls) > 1 and (args[0] < 0).any():
                return (result * float("nan"),)
            return (result + 0.5,) if len(calls) > 2 else (result,)

        return run

    @torch.compile(backend=faulty)
    def step(x):
        return (x * 2).sigmoid()

    torch.manual_seed(0)
    x = torch.rand(8)
    for _ in range(4):
        x = step(x)
"""
INLINE = (
    "aot_autograd(fw_compiler=plain, bw_compiler=replayed)",
    "lambda graph, inputs: backend(graph, inputs)",
)
BESIDE = """
    def late(graph, inputs):
        calls = []

        def run(*args):
            calls.append(1)
            return tuple(one * 1.5 for one in graph(*args)) if len(calls) > 1 else graph(*args)

        return run

    scale = torch.compile(lambda x: x.cos(), backend=late)
    shift = torch.compile(lambda x: x.sin(), backend=late)
    torch.manual_seed(0)
    x = torch.randn(8)
    level = total = torch.zeros(8)
    for step in range(4):
        level = level + scale(x + step)
        if step > 1:
            total = total + shift(x + step)
    CHECK
"""
HANDED_ON = """
    def compiled(function, backend):
        return torch.compile(function, backend=backend)
"""
PAIR = """
    import torch

    def f(x):
        return BODY

    def run(f):
        SEED
        x = torch.randn(16, 16, requires_grad=True)
        for _ in range(3):
            f(x).square().mean().backward()
            with torch.no_grad():
                x -= 0.1 * x.grad
        return RESULT

    torch.testing.assert_close(run(torch.compile(f, backend="eager")), run(f))
"""


def found(child: Executor, home: Path, text: str) -> Parted | None:
    """What a script's program comes to where it parts; None also where it does not part."""
    tracing = traced(child, home, dedent(text))
    program = program_of(tracing)
    sides, why = compared(child, program, tracing.file, SECONDS)
    assert sides is not None, why
    if sides.first is None:
        return None
    assert sides.first.sort == "value" or sides.first.is_of_reading
    rerun = Rerun(child, home / "script.py")
    return smallest_parting(program, sides.first, rerun, jobs=1, watch=lambda: None)


def render(graph: Program) -> str:
    return graph_function(graph, "f", decorated=False)


ARENA = """
    ARENA = torch.zeros(64)

    def in_arena(graph, inputs):
        def run(*args):
            return tuple(ARENA[: one.numel()].view(one.shape).copy_(one) for one in graph(*args))

        return run

    low = torch.compile(lambda x: x.cumsum(0), backend=in_arena)
    high = torch.compile(lambda x: x - x.roll(1, 0), backend=in_arena)
    torch.manual_seed(0)
    for _ in range(2):
        x = torch.randn(8)
        slow = low(x)
        scale = x.abs().sum()
        fast = high(x)
        level = (slow + fast).tanh() / scale
"""


def test_the_call_that_writes_over_a_result_and_the_one_that_made_it_are_left(child: Executor, home: Path) -> None:
    parted = found(child, home, ARENA)

    assert parted is not None
    body = parted.script.split("def program(")[1]
    assert "scale" not in body and "tanh" not in body
    assert body.count(" = f(") == body.count(" = g(") == 1
    assert "return slow" in body


TIDY = """
    def tidy(graph, inputs):
        return lambda *args: [one + 0.0 for one in graph(*args)]

    act = torch.compile(lambda x: -x.relu(), backend=tidy)
    x = torch.tensor([-1.0, 2.0])
    for _ in range(2):
        y = act(x)
        scale = y.exp()
        level = 1 / y
        x = x + 1
"""


def test_the_call_that_gives_a_zero_another_sign_and_what_reads_it_are_left(child: Executor, home: Path) -> None:
    parted = found(child, home, TIDY)

    assert parted is not None
    body = parted.script.split("def run(")[1]
    assert "exp" not in body
    assert body.count(" = f(") == 1
    assert "1 / y" in body


def test_calls_whose_windows_overlap_are_left(child: Executor, home: Path) -> None:
    parted = found(child, home, OVERLAPPING)

    assert parted is not None
    # Its definition, the call that it is compiled for, and the one that it is wrong for.
    assert parted.script.count(" f(") == 3
    assert "clone" not in parted.script.rpartition("return")[2]
    assert parted.events <= 6
    assert "signal" in parted.script


@pytest.mark.parametrize(
    ("check", "graph"),
    [
        pytest.param("assert torch.allclose(total, (x + 2).sin() + (x + 3).sin())", "sin", id="the later one"),
        pytest.param("torch.testing.assert_close(total, (x + 2).sin() + (x + 3).sin())", "sin", id="assert_close"),
        pytest.param(
            "if (total - (x + 2).sin() - (x + 3).sin()).abs().max() > 1e-3:\n        raise ValueError",
            "sin",
            id="raise",
        ),
        pytest.param("assert torch.allclose(level, sum((x + i).cos() for i in range(4)))", "cos", id="the first one"),
    ],
)
@pytest.mark.examples(2)
def test_of_two_wrong_events_that_which_the_check_reads_is_taken(
    check: str, graph: str, child: Executor, home: Path
) -> None:
    tracing = traced(child, home, dedent(BESIDE).replace("CHECK", dedent(check)))
    program, text = program_of(tracing), (home / "script.py").read_text()
    _, outcome = Rerun(child, home / "script.py").failure(text)
    assert outcome.exception is not None

    read = read_by_check(program, text, "script.py", outcome.exception)
    sides, _ = compared(child, program, tracing.file, SECONDS, read)

    assert sides is not None and sides.first is not None
    taken = sides.checked or sides.first
    assert graph in render(program.graphs[program.graph_of[taken.event] or ""])
    assert (sides.checked is None) is (graph == "cos")
    assert "cos" in render(program.graphs[program.graph_of[sides.first.event] or ""])


def test_a_program_whose_backend_is_not_known_is_none(child: Executor, home: Path) -> None:
    """It would be compiled by another one, which is right."""
    tracing = traced(child, home, dedent(REPLAYED.replace("BACKEND", INLINE[0]) + HANDED_ON))

    assert tracing.program is None
    assert "backend" in tracing.why_not


@pytest.mark.parametrize("text", [APART, LABELS.replace("BACKEND", '"aot_eager"')], ids=["windows apart", "labels"])
def test_a_healthy_twin_does_not_part(text: str, child: Executor, home: Path) -> None:
    assert found(child, home, text) is None


def test_integers_without_a_literal_are_drawn_from_their_range(child: Executor, home: Path) -> None:
    parted = found(child, home, LABELS.replace("BACKEND", "stale"))

    assert parted is not None
    assert "torch.randint(0, 9, (40,))" in parted.script


def test_what_only_the_number_of_a_call_makes_wrong_is_guessed(child: Executor, home: Path) -> None:
    """What the calls are given, and where it comes from, does not matter."""
    parted = found(child, home, LATE)

    assert parted is not None
    body = parted.script.partition("def program(f):")[2]  # the backend has a `run` of its own
    assert body.count(" f(torch.randn((8,)), torch.randn(())") == 3
    assert "@" not in body and parted.trials == 2


def test_what_is_reduced_stays_a_fault_of_a_sequence(child: Executor, home: Path) -> None:
    """A shorter backend that is wrong in each call is another fault, which a single call shows."""
    parted = found(child, home, LATE)
    assert parted is not None
    rerun = Rerun(child, home / "script.py")
    in_each_call = parted.script.replace("pool[-3] if len(pool) > 2 else pool[-1]", "[2 * one for one in pool[-1]]")

    assert in_each_call != parted.script
    for text, passes in ((parted.script, True), (in_each_call, False)):
        signature, _ = rerun.failure(text)
        assert signature is not None
        cured, outcome = rerun.failure(parted.cured(text))
        assert (cured is None and outcome.ending is Ending.SAME) is passes
        assert rerun.failure(control(text))[0] is None


@pytest.mark.parametrize("backend", ["backend", *INLINE])
def test_what_only_the_number_of_a_backward_makes_wrong_is_guessed(backend: str, child: Executor, home: Path) -> None:
    """By a backend of the script's, also one that is written where it is used."""
    parted = found(child, home, REPLAYED.replace("BACKEND", backend))

    assert parted is not None
    assert parted.script.count(".square().sum().backward()") == 2
    assert "mean" not in parted.script and parted.trials == 2


def test_what_is_guessed_fails_by_the_same_sort_of_difference(child: Executor, home: Path) -> None:
    """Numbers of its own have the backend give NaN, which is another fault of it: in the script the values are finite."""
    parted = found(child, home, OTHERWISE)

    assert parted is not None
    signature, _ = Rerun(child, home / "script.py").failure(parted.script)
    assert signature is not None and not signature.nonfinite
    assert "torch.randn" not in parted.script


@pytest.mark.parametrize(
    ("body", "seed", "result", "passes"),
    [
        pytest.param("x.sin() @ x", "torch.manual_seed(0)", "x", True, id="well conditioned"),
        pytest.param("x.sin() @ x", "pass", "x", False, id="drawn anew"),
        pytest.param("x.sin() @ x", "torch.manual_seed(0)", "(x * 1e7).round()", False, id="a jump"),
        pytest.param("x.sin() @ x", "torch.manual_seed(0)", "x + 1e9 - 1e9", False, id="cancelled"),
    ],
)
@pytest.mark.examples(2)
def test_what_rounding_or_noise_explains_is_no_evidence(
    body: str, seed: str, result: str, passes: bool, child: Executor, home: Path
) -> None:
    text = dedent(PAIR).replace("BODY", body).replace("SEED", seed).replace("RESULT", result)

    signature, outcome = Rerun(child, home / "script.py").failure(control(text))

    assert (signature is None and outcome.ending is Ending.SAME) is passes


@pytest.mark.parametrize(
    "step",
    [
        "x.add_(1)",
        "torch.add(x, 1, out=x)",
        "torch._foreach_add_([x], 1)",
        "x.copy_(torch.view_as_real(torch.view_as_complex(x) * 2))",
    ],
)
def test_a_control_rounds_elsewhere_also_what_returns_nothing_and_complex_numbers(step: str) -> None:
    """Or a jump that rounding makes would pass for a fault there."""
    names: dict[str, Any] = {}
    exec(ROUNDED, names)
    sides = []
    for seed in (None, 0, 1):
        names["x"] = torch.linspace(1, 2, 8).reshape(4, 2)
        with names["Rounded"](seed) if seed is not None else nullcontext():
            exec(step, names)
        sides.append(names["x"])
    exact, *moved = sides
    assert all(not torch.equal(one, exact) and torch.allclose(one, exact, rtol=1e-5) for one in moved)
    assert not torch.equal(*moved)


@pytest.mark.parametrize(
    ("kind", "event", "expected"),
    [
        (Kind.WRONG_OUTPUT, GRAPH, True),
        (Kind.WRONG_OUTPUT, BACKWARD, False),
        (Kind.WRONG_GRADIENT, GRAPH, False),
        (Kind.WRONG_GRADIENT, BACKWARD, True),
    ],
)
def test_what_parts_elsewhere_first_is_not_the_failure_of_a_call(kind: Kind, event: str, *, expected: bool) -> None:
    assert is_like(kind, event) is expected
