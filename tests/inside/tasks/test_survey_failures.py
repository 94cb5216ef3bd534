"""Failures that a survey holds: with their graph, their inputs and the settings that made them."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Any

import pytest
from children import script, survey
from surveyed import BACKENDS, RELU_BUG, finished, held, targets

from minimizer.engine.child.executor import Executor
from minimizer.engine.survey.cases import Case, Settled
from minimizer.vocabulary import Kind, Reason, Status


def test_a_silently_wrong_value_is_held_with_its_graph_and_inputs(child: Executor, home: Path) -> None:
    text = (
        RELU_BUG.format("accuracy")
        + """
import torch

@torch.compile
def good(x):
    return x + 1

@torch.compile
def bad(x, n):
    y = x * n
    return torch.relu(y)

good(torch.ones(3))
for n in (2.0,):
    bad(torch.tensor([-1.0, 0.5, 3.0]), n)
print("never compared")
"""
    )
    found = survey(child, script(home, text))
    assert found.held is not None
    failure = found.held.failure
    assert (failure.graph, failure.call, failure.phase, failure.kind) == (1, 0, "run", "wrong_output")
    assert failure.verdict is not None
    assert failure.verdict.differences[0].where.startswith("output[0]")
    program = found.program("dynamo")
    assert targets(program) == ["operator.mul", "torch.relu"]
    assert program.level == "dynamo"
    assert program.setup == ("torch._inductor.config.cpp.inject_relu_bug_TESTING_ONLY = 'accuracy'",)
    assert program.nodes[1].source is not None
    assert program.nodes[1].source[::2] == ("script.py", "return torch.relu(y)")
    key = program.inputs[0].golden
    assert key is not None
    assert found.literal(key) == "torch.tensor([-1.0, 0.5, 3.0])"
    lowered = found.program("aot")
    assert "torch.ops.aten.relu.default" in targets(lowered)
    found.close()


def test_a_compile_error_is_held(child: Executor, home: Path) -> None:
    text = RELU_BUG.format("compile_error") + "import torch\ntorch.compile(torch.relu)(torch.ones(3))\n"
    failure = held(survey(child, script(home, text))).failure
    assert (failure.phase, failure.kind) == ("compile", "compile_error")
    assert failure.exception is not None
    assert failure.exception.root_type == "torch._inductor.exc.CppCompileError"
    first, *errors = failure.exception.root_message.splitlines()
    assert first == "C++ compile error"
    assert errors
    assert all("error: " in line for line in errors)


def test_an_error_that_the_script_hides_is_found(child: Executor, home: Path) -> None:
    text = (
        BACKENDS
        + """
def f(x):
    return torch.sin(x)

try:
    torch.compile(f, backend=rejects)(torch.ones(3))
except Exception:
    f(torch.ones(3))
"""
    )
    failure = held(survey(child, script(home, text))).failure
    assert failure.kind == "compile_error"
    assert failure.exception is not None
    assert (failure.exception.root_type, failure.exception.root_message) == ("NotImplementedError", "no sin here")


def test_an_error_that_dynamo_suppresses_is_found(child: Executor, home: Path) -> None:
    text = (
        BACKENDS
        + """
import torch._dynamo.config
torch._dynamo.config.suppress_errors = True
torch.compile(lambda x: torch.sin(x), backend=rejects)(torch.ones(3))
"""
    )
    assert held(survey(child, script(home, text))).failure.kind == "compile_error"


def test_an_error_when_compiled_code_runs(child: Executor, home: Path) -> None:
    text = BACKENDS + "torch.compile(lambda x: torch.sin(x), backend=breaks)(torch.ones(3))\n"
    failure = held(survey(child, script(home, text))).failure
    assert (failure.phase, failure.kind) == ("run", "runtime_error")


def test_an_error_that_only_eager_raises_is_held(triage: Any) -> None:
    case = triage(
        """
import torch

@torch.compile
def loss(x):
    return torch.nn.functional.binary_cross_entropy(x + 1, torch.ones(3))

try:
    loss(torch.ones(3))
except RuntimeError:
    pass
"""
    )
    assert isinstance(case, Case)
    assert (case.signature.kind, case.signature.exception_type) == (Kind.MISSING_ERROR, "RuntimeError")
    assert "torch.nn.functional.binary_cross_entropy" in targets(case.program)
    case.survey.close()


def test_an_error_that_only_the_comparison_meets_is_none(triage: Any) -> None:
    """The operator knows its operand by address: eager's copy of it is refused, and in the script nothing ever is.

    No call could be compared, so the script is not called healthy either.
    """
    found = triage(
        """
import torch

pool = torch.ones(3)

@torch.library.custom_op("lib::pooled", mutates_args=())
def pooled(x: torch.Tensor) -> torch.Tensor:
    if x.data_ptr() != pool.data_ptr():
        raise RuntimeError("no tensor of the pool")
    return x + 1

pooled.register_fake(lambda x: torch.empty_like(x))
torch.compile(lambda x: torch.ops.lib.pooled(x))(pool)
"""
    )
    assert isinstance(found, Settled)
    assert (found.status, found.reason, found.kind) == (Status.PARTIAL, Reason.NOT_VERIFIED, None)
    assert (found.checked.frames, found.checked.calls) == (1, 0)


def test_a_backend_without_a_name_is_one_of_the_program(triage: Any) -> None:
    """Or it would be compiled by Inductor, and not fail."""
    found = triage(
        """
        from functools import partial

        import torch

        def scaled(graph, inputs, factor):
            return lambda *args: tuple(one * factor for one in graph(*args))

        torch.compile(lambda x: x.sin(), backend=partial(scaled, factor=1.5))(torch.ones(3))
        """
    )
    assert isinstance(found, Case)
    assert ("backend", "own_backend") in found.program.compile_kwargs
    assert found.program.setup[-1] == "own_backend = partial(scaled, factor=1.5)"
    assert ("backend", "own_backend") in found.lowered().compile_kwargs
    found.survey.close()


def test_an_error_that_compiled_code_misses_does_not_stop_the_script(triage: Any) -> None:
    found = triage(
        """
        import torch

        f = torch.compile(lambda bias, a, b: torch.addmm(bias, a, b), backend="aot_eager_decomp_partition")
        assert f(torch.ones(5, 1), torch.ones(1, 1), torch.ones(1, 1)).shape == (5, 1)
        """
    )
    assert isinstance(found, Case)
    assert found.signature.kind is Kind.MISSING_ERROR
    assert "must match the existing size" in found.message
    assert targets(found.program) == ["torch.addmm"]
    found.survey.close()


def test_a_module_compiled_in_place(child: Executor, home: Path) -> None:
    text = (
        BACKENDS
        + """
class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.ReLU())

    def forward(self, x):
        return self.inner(x)

m = Net()
m.compile(backend=wrong)
with torch.no_grad():
    m(torch.ones(2, 3))
"""
    )
    answer = survey(child, script(home, text))
    assert held(answer).failure.kind == "wrong_output"
    assert answer.held is not None
    nodes = answer.held.program["nodes"]
    assert [(node["module"], node["module_class"]) for node in nodes] == [("inner.0", "Linear"), ("inner.1", "ReLU")]
    assert answer.held.program["grad"] is False


def test_a_script_that_asserts_fails_by_the_graph_and_not_by_its_assert(triage: Any) -> None:
    found = triage(
        BACKENDS
        + "x = torch.ones(3)\nassert torch.equal(torch.compile(torch.sin, backend=wrong)(x), torch.sin(x)), 'off'\n"
    )
    assert isinstance(found, Case)
    assert found.signature.kind is Kind.WRONG_OUTPUT
    assert targets(found.program) == ["torch.sin"]


def test_the_scripts_own_tolerance_holds_what_ours_lets_pass(triage: Any) -> None:
    found = triage(
        """
        import torch

        def nearly(gm, example):
            return lambda *args: [out * (1 + 1e-6) for out in gm(*args)]

        x = torch.ones(3)
        torch.testing.assert_close(torch.compile(torch.sin, backend=nearly)(x), torch.sin(x), rtol=1e-9, atol=0.0)
        """
    )
    assert isinstance(found, Case)
    assert found.tolerance == {"rtol": 1e-9, "atol": 0.0}


def test_a_fault_after_the_compared_steps_needs_more_of_them(child: Executor, home: Path) -> None:
    text = """
        import torch
        calls = 0

        def late(gm, example):
            def run(*args):
                global calls
                calls += 1
                return [out + (calls >= 11) for out in gm(*args)]
            return run

        f = torch.compile(lambda x: x + 1, backend=late)
        for _ in range(12):
            f(torch.ones(2))
    """
    path = script(home, text)
    assert finished(survey(child, path)).exception is None
    assert held(survey(child, path, steps=20)).failure.call == 10


def test_a_crash_when_compiled_code_runs_is_held_before_it(triage: Any) -> None:
    found = triage(
        """
        import os
        import torch

        def aborts(gm, example):
            def run(*args):
                os.abort()
            return run

        torch.compile(lambda x: x + 1, backend="eager")(torch.ones(2))
        torch.compile(lambda x: torch.relu(x), backend=aborts)(torch.ones(2))
        """
    )
    assert isinstance(found, Case)
    assert (found.signature.kind, found.signature.signal) == (Kind.CRASH, signal.SIGABRT)
    assert targets(found.program) == ["torch.relu"]
    found.survey.close()


def test_a_crash_where_eager_raises_is_held_at_its_call(triage: Any) -> None:
    """A server that catches what eager raises, and whose compiled code ends the process there."""
    found = triage(
        """
        import os
        import torch

        def trusting(gm, example):
            def run(rows, ids):
                if ids.max() >= len(rows):
                    os.write(2, b"Assertion `id < rows' failed\\n")
                    os.abort()
                return gm(rows, ids)
            return run

        look_up = torch.compile(lambda rows, ids: rows[ids], backend=trusting)
        for ids in ([0, 1], [1, 4]):
            try:
                look_up(torch.ones(2), torch.tensor(ids))
            except IndexError:
                pass
        """
    )
    assert isinstance(found, Case)
    assert (found.signature.kind, found.signature.signal) == (Kind.CRASH, signal.SIGABRT)
    assert (found.graph, found.call) == (0, 1)
    assert "failed" in found.message
    found.survey.close()


def test_a_crash_of_generated_code_is_held(triage: Any) -> None:
    """Inductor's own switch: the kernel fails a check of its own and takes the process down or raises."""
    found = triage(RELU_BUG.format("runtime_error") + "import torch\ntorch.compile(torch.relu)(torch.ones(3))\n")
    assert isinstance(found, Case)
    assert found.signature.kind in (Kind.CRASH, Kind.RUNTIME_ERROR)
    assert targets(found.program) == ["torch.relu"]
    found.survey.close()


def test_a_crash_while_compiling_is_held_before_the_compiler(triage: Any) -> None:
    found = triage(
        "import os, torch\ntorch.compile(lambda x: torch.relu(x), backend=lambda gm, ex: os.abort())(torch.ones(2))\n"
    )
    assert isinstance(found, Case)
    assert found.signature.signal == signal.SIGABRT
    assert targets(found.program) == ["torch.relu"]
    found.survey.close()


def test_our_own_backend_checks_nothing_in_a_survey(child: Executor, home: Path) -> None:
    text = (
        RELU_BUG.format("accuracy")
        + """
import torch
for name in ("minimizer",):
    torch.compile(torch.relu, backend=name, options={"minimizer.on_failure": "report"})(torch.ones(3))
"""
    )
    assert held(survey(child, script(home, text))).failure.kind == "wrong_output"


def test_a_fault_of_our_own_is_no_crash_of_the_script(child: Executor, home: Path) -> None:
    text = (
        BACKENDS
        + """
import sys

def broken(*args):
    raise ValueError("ours")

sys.modules["minimizer_inside.watch.holder"].HeldCall = broken
torch.compile(lambda x: x + 1, backend=wrong)(torch.ones(3))
"""
    )
    found = survey(child, script(home, text))
    assert (found.held, found.finished, found.exit) == (None, None, 70)
    assert "ValueError: ours" in found.log


@pytest.mark.needs_excuse("passed_by")
@pytest.mark.fault_behind("passed_by")
def test_a_graph_that_is_passed_by_is_counted_and_the_next_one_that_fails_is_held(child: Executor, home: Path) -> None:
    text = f"""{BACKENDS}
f = torch.compile(lambda x: x + 1, backend=wrong)
f(torch.ones(3)), f(torch.ones(3))
torch.compile(lambda x: x + 2, backend=wrong)(torch.ones(3))
"""
    found = held(survey(child, script(home, text), passed_by=[0]))
    assert (found.failure.graph, found.failure.kind) == (1, "wrong_output")
    assert found.failure.checked is not None
    assert [(one.rule, one.object, one.count) for one in found.failure.checked.excused] == [("passed_by", "graph 0", 2)]
