"""Surveys of real scripts: what is held, and what is left in peace."""

from __future__ import annotations

import os
import signal
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from checkout import ROOT
from children import script, survey

from minimizer.engine.child.executor import Executor, Survey
from minimizer.engine.child.protocol import Finished, Held
from minimizer.engine.oracle.oracle import Oracle
from minimizer.engine.program import render
from minimizer.engine.program.model import Node, Program
from minimizer.engine.reduce.graph.passes.bodies import opened
from minimizer.engine.reduce.graph.public_names import candidates
from minimizer.engine.survey.cases import Case, Settled
from minimizer.engine.survey.runs import Surveys
from minimizer.engine.survey.triage import Triage
from minimizer.inside.wire import Channel
from minimizer.vocabulary import Kind, Reason, Status

RELU_BUG = 'import torch._inductor.config\ntorch._inductor.config.cpp.inject_relu_bug_TESTING_ONLY = "{}"\n'


@pytest.fixture
def triage(child: Executor, home: Path) -> Any:
    def run(text: str, *args: str) -> Case | Settled:
        surveys = Surveys(child, script(home, text), args=list(args), steps=None, hang_after=200, values=True)
        return Triage(surveys, on_note=lambda _: None).run()

    return run


def held(found: Survey) -> Held:
    assert found.held is not None, found.finished or found.log
    found.close()
    return found.held


def finished(found: Survey) -> Finished:
    assert found.finished is not None, found.held.failure if found.held else found.log
    return found.finished


def targets(program: Program) -> list[str]:
    return [node.target for node in program.nodes]


# failures -------------------------------------------------------------------------------------------------------------


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


BACKENDS = """
import torch

def rejects(gm, example):
    if any(node.target in (torch.sin, "sin") for node in gm.graph.nodes):
        raise NotImplementedError("no sin here")
    return gm

def breaks(gm, example):
    def run(*args):
        raise ValueError("only when it runs")
    return run

def wrong(gm, example):
    return lambda *args: [out + 1 for out in gm(*args)]

def zero_gradient(gm, example):
    class Wrong(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x.clone()
        @staticmethod
        def backward(ctx, grad):
            return grad * 2
    return lambda *args: [Wrong.apply(out) for out in gm(*args)]
"""


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


def test_a_backend_of_the_scripts_own_is_known_by_its_name(triage: Any) -> None:
    case = triage(
        """
import torch

def negative(graph_module, inputs):
    return lambda *args: tuple(-out for out in graph_module(*args))

torch.compile(lambda x: x + 1, backend=negative)(torch.ones(3))
"""
    )
    assert isinstance(case, Case)
    assert case.program.compile_kwargs == (("backend", "negative"),)
    assert any(line.startswith("def negative(") for line in case.program.setup)
    case.survey.close()


@pytest.mark.parametrize(
    "how",
    [
        "torch._inductor.config.post_grad_custom_post_pass = negate\ntorch.compile(f)(torch.ones(3))",
        "torch.compile(f, options={'post_grad_custom_post_pass': negate})(torch.ones(3))",
    ],
)
def test_a_function_of_the_script_that_is_a_pass_is_known_by_its_name(triage: Any, how: str) -> None:
    case = triage(
        f"""
import torch
import torch._inductor.config

def negate(graph):
    for node in graph.find_nodes(op="call_function", target=torch.ops.aten.sin.default):
        node.target = torch.ops.aten.cos.default

def f(x):
    return torch.sin(x)

{how}
"""
    )
    assert isinstance(case, Case)
    assert any(line.startswith("def negate(") for line in case.program.setup)
    assert not any("__main__" in text for text in (*case.program.setup, *dict(case.program.compile_kwargs).values()))
    case.survey.close()


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


def test_a_wrong_gradient_is_held_with_forward_and_backward_in_one_graph(child: Executor, home: Path) -> None:
    text = (
        BACKENDS
        + """
w = torch.ones(3, requires_grad=True)
f = torch.compile(lambda x: torch.sin(x * x), backend=zero_gradient)
f(w).sum().backward()
"""
    )
    answer = survey(child, script(home, text))
    assert answer.held is not None
    joint = answer.program("aot")
    found = held(answer)
    assert (found.failure.phase, found.failure.kind) == ("backward", "wrong_gradient")
    assert found.program["level"] == "dynamo"  # as it was written
    assert joint.level == "aot"
    assert "torch.ops.aten.cos.default" in [node.target for node in joint.nodes]


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


# nothing to reduce ----------------------------------------------------------------------------------------------------


def test_training_with_dropout_is_healthy(child: Executor, home: Path) -> None:
    text = """
        import torch

        torch.manual_seed(3)
        model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.GELU(), torch.nn.Dropout(0.5), torch.nn.Linear(8, 1))
        compiled = torch.compile(model)
        optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
        for step in range(3):
            optimizer.zero_grad()
            compiled(torch.randn(16, 4)).square().mean().backward()
            optimizer.step()
        print("trained")
    """
    answer = finished(survey(child, script(home, text)))
    assert answer.exception is None
    assert answer.checked.calls == 3
    assert not answer.suspects


def test_gradients_behind_dropout_are_checked(child: Executor, home: Path) -> None:
    text = """
        import torch
        from torch._inductor.decomposition import decompositions

        decompositions[torch.ops.aten.gelu_backward.default] = lambda grad, x, approximate="none": grad * torch.sigmoid(1.702 * x)
        torch.manual_seed(0)
        model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.GELU(), torch.nn.Dropout(0.5))
        compiled = torch.compile(model)
        for _ in range(2):
            compiled(torch.randn(16, 4)).square().mean().backward()
    """
    found = held(survey(child, script(home, text)))
    assert found.failure.kind == "wrong_gradient"
    assert found.program is not None
    assert "torch._inductor.config.fallback_random = True" in found.program["setup"]


def test_a_backward_that_does_not_compile_is_held(child: Executor, home: Path) -> None:
    text = """
        import torch
        from torch._inductor.lowering import lowerings

        def sin(x):
            raise NotImplementedError("sin")

        lowerings[torch.ops.aten.sin.default] = sin
        x = torch.ones(4, requires_grad=True)
        torch.compile(lambda x: torch.cos(x))(x).sum().backward()
    """
    found = held(survey(child, script(home, text)))
    assert (found.failure.kind, found.failure.phase) == ("compile_error", "backward")
    assert found.failure.exception is not None
    assert "NotImplementedError: sin" in found.failure.exception.root_message


def test_a_grad_mode_that_a_graph_leaves_behind_reaches_no_compiler(child: Executor, home: Path) -> None:
    healthy = ROOT / "tests" / "quality" / "healthy" / "grad_mode_statement.py"
    answer = finished(survey(child, script(home, healthy.read_text())))
    assert answer.exception is None
    assert (answer.checked.calls, answer.checked.backward) == (2, 2)


def test_the_number_of_threads_that_a_script_sets_travels(child: Executor, home: Path) -> None:
    text = f"import torch\n{RELU_BUG.format('accuracy')}torch.set_num_threads(3)\ntorch.compile(torch.relu)(torch.ones(4))\n"
    found = held(survey(child, script(home, text)))
    assert found.program is not None
    assert "torch.set_num_threads(3)" in found.program["setup"]


def test_what_fails_in_a_unit_test_is_what_the_script_fails_by(child: Executor, home: Path) -> None:
    text = """
        import unittest

        class Tests(unittest.TestCase):
            def test(self):
                raise KeyError("width")

        unittest.main()
    """
    answer = finished(survey(child, script(home, text)))
    assert answer.exception is not None
    assert (answer.exception.type, answer.exception.root_type) == ("SystemExit", "KeyError")


def test_what_a_script_was_handling_when_it_ended_itself_is_what_it_fails_by(child: Executor, home: Path) -> None:
    text = "import sys\ntry:\n    {}['width']\nexcept KeyError:\n    sys.exit(1)\n"
    answer = finished(survey(child, script(home, text)))
    assert answer.exception is not None
    assert answer.exception.root_type == "KeyError"


def test_backward_passes_are_checked(child: Executor, home: Path) -> None:
    text = """
        import torch
        w = torch.ones(3, requires_grad=True)
        f = torch.compile(lambda x: torch.sin(x * x), backend="aot_eager")
        for _ in range(2):
            f(w).sum().backward()
        assert w.grad is not None
    """
    answer = finished(survey(child, script(home, text)))
    assert answer.exception is None
    assert (answer.checked.calls, answer.checked.backward) == (2, 2)


def test_a_backward_through_several_graphs_is_checked_in_each(child: Executor, home: Path) -> None:
    text = (
        BACKENDS
        + """
def step(x):
    y = torch.sin(x * x)
    torch._dynamo.graph_break()
    return torch.cos(y)

def backend(module, inputs):
    wrong = any(node.target is torch.sin for node in module.graph.nodes)
    return zero_gradient(module, inputs) if wrong else module

w = torch.ones(3, requires_grad=True)
torch.compile(step, backend=backend)(w).sum().backward()
"""
    )
    found = held(survey(child, script(home, text)))
    assert (found.failure.phase, found.failure.kind) == ("backward", "wrong_gradient")
    assert "torch.sin" in [node["target"] for node in found.program["nodes"]]


def test_a_script_that_is_stopped_runs_its_first_backward_before(child: Executor, home: Path) -> None:
    text = """
        import os, signal, time
        import torch
        w = torch.ones(3, requires_grad=True)
        f = torch.compile(lambda x: torch.sin(x * x), backend="eager")
        y = f(w)
        os.kill(os.getpid(), signal.SIGRTMIN + 9)
        y.sum().backward()
        f(w)
        raise AssertionError("it goes on")
    """
    answer = finished(survey(child, script(home, text)))
    assert answer.stopped
    assert answer.exception is None
    assert answer.checked.backward == 1


def test_a_graph_break_is_healthy(child: Executor, home: Path) -> None:
    text = """
        import torch

        @torch.compile(backend="aot_eager")
        def f(x):
            y = x.sin()
            print("in between", flush=True)
            return y.cos() if y.sum() > 0 else y.tan()

        f(torch.ones(3))
        f(-torch.ones(3))
    """
    answer = finished(survey(child, script(home, text)))
    assert answer.exception is None
    assert answer.checked.frames == 4
    assert answer.checked.calls == 6


def test_the_script_sees_what_it_would_see_by_itself(child: Executor, home: Path) -> None:
    """Values that the survey makes on the side leave neither the random stream nor the script's tensors changed."""
    body = """
        import torch

        @torch.compile(backend="eager")
        def f(x):
            x.mul_(2)
            return x + torch.rand(3)

        torch.manual_seed(0)
        x = torch.ones(3)
        results = [f(x).tolist() for _ in range(3)]
        print("SAW", results, x.tolist(), torch.rand(2).tolist(), flush=True)
        raise SystemExit("SAW %s" % [results, x.tolist(), torch.rand(2).tolist()])
    """
    path = script(home, body)
    compiled, eager = (finished(survey(child, path, compile=mode)) for mode in (True, False))
    assert compiled.exception is not None
    assert eager.exception is not None
    assert compiled.exception.message == eager.exception.message
    assert "SAW" in compiled.exception.message


@pytest.mark.parametrize(("steps", "calls"), [(None, 8), (2, 2), (100, 12)])
def test_steps_say_how_many_calls_are_compared(child: Executor, home: Path, steps: int | None, calls: int) -> None:
    text = """
        import torch
        f = torch.compile(lambda x: x + 1, backend="eager")
        for _ in range(12):
            f(torch.ones(2))
    """
    assert finished(survey(child, script(home, text), steps=steps)).checked.calls == calls


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


def test_a_script_runs_as_python_would_run_it(child: Executor, home: Path) -> None:
    """Arguments, its own name, modules and files beside it, and a working directory it may write to."""
    (home / "sibling.py").write_text("VALUE = 7\n")
    (home / "data.txt").write_text("forty-two\n")
    (child.place.origin / "data.txt").symlink_to(home / "data.txt")
    text = """
        import os, sys
        import sibling
        import torch
        assert __name__ == "__main__"
        assert sys.argv == [__file__, "--rate", "3"], sys.argv
        assert sibling.VALUE == 7
        assert open("data.txt").read() == "forty-two\\n"
        assert open(os.path.join(os.path.dirname(__file__), "data.txt")).read() == "forty-two\\n"
        open("written.txt", "w").write("here")
        assert os.path.realpath("written.txt") != os.path.join(os.path.dirname(__file__), "written.txt")
        torch.compile(lambda x: x + 1, backend="eager")(torch.ones(2))
    """
    answer = finished(survey(child, script(home, text), "--rate", "3"))
    assert answer.exception is None
    assert answer.checked.calls == 1
    assert not (home / "written.txt").exists()


@pytest.mark.parametrize(
    ("code", "fails"), [("sys.exit()", False), ("sys.exit(0)", False), ("sys.exit(3)", True), ("exit('no')", True)]
)
def test_the_exit_status_of_a_script(child: Executor, home: Path, code: str, fails: bool) -> None:
    assert (finished(survey(child, script(home, f"import sys\n{code}\n"))).exception is not None) is fails


def test_a_script_that_compiles_nothing(triage: Any) -> None:
    found = triage("import torch\nprint(torch.ones(3))\n")
    assert (found.status, found.reason) == (Status.FAILED, Reason.NOTHING_COMPILED)


def test_a_script_that_fails_without_the_compiler_too(triage: Any) -> None:
    found = triage("import torch\ntorch.compile(lambda x: x @ torch.ones(5), backend='eager')(torch.ones(2))\n")
    assert (found.status, found.reason) == (Status.FAILED, Reason.FAILS_IN_EAGER)


def test_a_script_cannot_tell_that_a_stance_switches_the_compiler_off(child: Executor, home: Path) -> None:
    text = """
        import os
        import torch
        from torch._dynamo.utils import counters

        model = torch.compile(torch.nn.Linear(2, 2), backend="eager")
        model(torch.ones(2))
        assert "TORCHDYNAMO_DISABLE" not in os.environ
        assert model._orig_mod.in_features == 2
        assert not counters["stats"]
    """
    path = script(home, text)
    assert finished(survey(child, path, compile=False, stance=True)).exception is None
    assert finished(survey(child, path, compile=False)).exception is not None


def test_eager_runs_compile_nothing(child: Executor, home: Path) -> None:
    text = """
        import torch
        def never(gm, example):
            raise ValueError("compiled after all")
        torch.compile(lambda x: x + 1, backend=never)(torch.ones(2))
    """
    answer = finished(survey(child, script(home, text), compile=False))
    assert answer.exception is None
    assert answer.checked.frames == 0


# dynamic shapes -------------------------------------------------------------------------------------------------------


def test_symbols_are_read_off_the_tensors_they_are_sizes_of(child: Executor, home: Path) -> None:
    """Unused ones go; a number of the user's stays an input; a float comes as the number it is, not as Dynamo's tensor."""
    text = (
        BACKENDS
        + """
def f(x, n, scale):
    return x.view(x.size(0) * n, -1) * scale

torch.compile(f, backend=wrong, dynamic=True)(torch.ones(6, 4), 2, 0.37)
"""
    )
    found = survey(child, script(home, text))
    assert found.held is not None
    program = found.program("dynamo")
    assert targets(program) == [".size", "operator.mul", ".view", "operator.mul"]
    assert [node.number for node in program.nodes] == [6, 12, None, None]
    assert [(i.code, i.meta and i.meta.symbolic) for i in program.inputs] == [
        (None, (0, 1)),
        ("2", None),
        ("0.37", None),
    ]
    assert dict(program.compile_kwargs)["dynamic"] == "True"
    assert program.setup == ()  # what dynamic=True sets while it compiles is no setting of the script's
    lowered = found.program("aot")
    assert ".size" in targets(lowered)
    assert lowered.is_symbolic
    found.close()


def test_sizes_are_those_of_the_call_that_fails(child: Executor, home: Path) -> None:
    """A graph that automatic dynamic shapes made for another size."""
    text = """
        import torch

        def late(gm, example):
            return lambda *args: [out + (args[-1].shape[0] == 9) for out in gm(*args)]

        f = torch.compile(lambda x: x.relu().flatten() * x.shape[0], backend=late)
        for n in (5, 6, 7, 9):
            f(torch.ones(n, 2))
    """
    found = survey(child, script(home, text))
    assert found.held is not None
    assert (found.held.failure.graph, found.held.failure.call) == (1, 2)
    program = found.program("dynamo")
    assert program.is_symbolic
    assert "dynamic" not in dict(program.compile_kwargs)  # how dynamic it was is for the search to find out
    assert {n.target: (n.meta and n.meta.shape, n.number) for n in program.nodes} == {
        ".size": (None, 9),
        ".relu": ((9, 2), None),
        ".flatten": ((18,), None),
        "operator.mul": ((18,), None),
    }
    assert program.inputs[0].meta is not None
    assert (program.inputs[0].meta.shape, program.inputs[0].meta.symbolic) == ((9, 2), (0,))
    found.close()


@pytest.mark.parametrize(("dropped", "backwards"), [(0.5, 0), (0.0, 1)])
def test_gradients_of_random_numbers_that_are_drawn_twice_are_not_compared(
    child: Executor, home: Path, dropped: float, backwards: int
) -> None:
    text = f"""
        import torch
        import torch.nn.functional as F
        from torch.utils.checkpoint import checkpoint

        weight = torch.nn.Parameter(torch.eye(64))

        def block(x):
            return F.dropout(torch.sin(x @ weight), {dropped})

        def step(x):
            return checkpoint(block, checkpoint(block, x, use_reentrant=False), use_reentrant=False)

        torch.compile(step, backend="aot_eager")(torch.ones(64, 64)).sum().backward()
    """
    answer = finished(survey(child, script(home, text)))
    assert (answer.checked.calls, answer.checked.backward) == (1, backwards)
    assert any("once more in its backward" in note for note in answer.notes) is (not backwards)


def test_what_cannot_be_copied_is_left_to_the_compiler(child: Executor, home: Path) -> None:
    """A survey that cannot look at a graph says so, and raises nothing into the script."""
    text = """
        import torch

        class Secret(torch.Tensor):
            @staticmethod
            def __new__(cls, data):
                return torch.Tensor._make_subclass(cls, data)

            def _is_zerotensor(self):
                raise RuntimeError("no copies")

        f = torch.compile(lambda x: x + 1, backend="eager")
        assert f(Secret(torch.ones(3))).tolist() == [2.0, 2.0, 2.0]
        assert f(torch.ones(3)).tolist() == [2.0, 2.0, 2.0]
    """
    answer = finished(survey(child, script(home, text)))
    assert answer.exception is None
    assert any("no copies" in note for note in answer.notes)


def test_an_object_that_cannot_be_copied_may_be_a_setting(child: Executor, home: Path) -> None:
    """Configs are copied to know what the script has set; a pass that holds a lock has no copy."""
    text = (
        BACKENDS
        + """
import threading
import torch._inductor.config

class Pass:
    def __init__(self):
        self.lock = threading.Lock()

torch._inductor.config.post_grad_custom_post_pass = Pass()
x = torch.ones(3, requires_grad=True)
torch.compile(lambda x: x.sin().exp(), backend=COMPILER)(x).sum().backward()
"""
    )
    answer = finished(survey(child, script(home, text.replace("COMPILER", "'aot_eager'"))))
    assert (answer.exception, answer.notes) == (None, [])
    assert (answer.checked.calls, answer.checked.backward) == (1, 1)
    found = held(survey(child, script(home, text.replace("COMPILER", "wrong"))))
    assert found.failure.kind == "wrong_output"
    assert found.program is not None
    assert found.program["opaque_settings"] == ["torch._inductor.config.post_grad_custom_post_pass"]


@pytest.mark.parametrize("part", ["cuda.matmul", "mkldnn.matmul"])
def test_a_precision_set_for_one_backend_travels(child: Executor, home: Path, part: str) -> None:
    line = f'torch.backends.{part}.fp32_precision = "{"tf32" if part == "cuda.matmul" else "bf16"}"'
    text = f"import torch\n{line}\ntorch.compile(lambda x: x + 1, backend=COMPILER)(torch.ones(3))\n"
    answer = finished(survey(child, script(home, text.replace("COMPILER", "'aot_eager'"))))
    assert (answer.exception, answer.notes, answer.checked.calls) == (None, [], 1)
    program = held(survey(child, script(home, BACKENDS + text.replace("COMPILER", "wrong")))).program
    assert program is not None
    assert line in program["setup"]


@pytest.mark.parametrize("base", ["torch.Tensor", "torch.nn.Parameter"])
def test_tensors_of_a_class_of_the_scripts_own_are_compared_as_tensors(child: Executor, home: Path, base: str) -> None:
    text = f"""
import torch

class Own({base}):
    pass

x = torch.ones(3).as_subclass(Own) if Own.__base__ is torch.Tensor else Own(torch.ones(3))
torch.compile(lambda x: x + 1, backend=COMPILER)(x)
"""
    answer = finished(survey(child, script(home, text.replace("COMPILER", "'inductor'"))))
    assert (answer.checked.calls, answer.notes) == (1, [])
    found = survey(child, script(home, BACKENDS + text.replace("COMPILER", "wrong")))
    assert found.held is not None, found.finished
    key = found.program("dynamo").inputs[0].golden
    assert key is not None
    assert found.literal(key) == "torch.tensor([1.0, 1.0, 1.0])"
    found.close()


OPTIMIZER = """
import torch

def train(compiled):
    torch.manual_seed(0)
    linear = torch.nn.Linear(4, 4)
    optimizer = torch.optim.Adam(linear.parameters(), lr=0.1)
    step = torch.compile(lambda: optimizer.step(), backend=COMPILER) if compiled else optimizer.step
    for _ in range(5):
        optimizer.zero_grad()
        linear(torch.randn(3, 4)).square().mean().backward()
        step()
    return [parameter.detach() for parameter in linear.parameters()]

torch.testing.assert_close(train(True), train(False), rtol=1e-4, atol=1e-5)
"""


def test_a_compiled_step_of_an_optimizer_trains_as_it_does_by_itself(child: Executor, home: Path) -> None:
    text = OPTIMIZER.replace("COMPILER", "'aot_eager'")
    answer = finished(survey(child, script(home, text), measure=True))
    assert answer.exception is None, "our own runs of the step have trained too"
    assert (answer.checked.calls, answer.notes) == (5, [])


def test_a_wrong_step_of_an_optimizer_is_held_with_what_it_changes_as_inputs(child: Executor, home: Path) -> None:
    rounds = """
def rounds_wrong(gm, example):
    for node in gm.graph.find_nodes(op="call_method", target="addcdiv_"):
        node.kwargs = {"value": 1.5}
    gm.recompile()
    return gm
"""
    found = survey(child, script(home, rounds + OPTIMIZER.replace("COMPILER", "rounds_wrong")))
    assert found.held is not None, found.finished
    assert found.held.failure.verdict is not None
    assert found.held.failure.verdict.differences[0].where.startswith("input[")
    program = found.program("dynamo")
    assert len(program.inputs) == 2 + 2 * 4, "gradients, then parameters with their steps and averages"
    assert "torch.ops.prims.fma.default" in targets(program) or ".addcdiv_" in targets(program)
    (outcome,) = Oracle(child, found, ()).judge([replace(program, compile_kwargs=(("backend", "'aot_eager'"),))])
    assert outcome.outcome == "same", outcome
    found.close()


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

sys.modules["minimizer_inside.tasks.survey"].HeldCall = broken
torch.compile(lambda x: x + 1, backend=wrong)(torch.ones(3))
"""
    )
    found = survey(child, script(home, text))
    assert (found.held, found.finished, found.exit) == (None, None, 70)
    assert "ValueError: ours" in found.log


# threads --------------------------------------------------------------------------------------------------------------


def test_threads_that_python_would_wait_for_are_waited_for(child: Executor, home: Path) -> None:
    text = """
        import concurrent.futures
        import threading
        import time
        import torch

        pool = concurrent.futures.ThreadPoolExecutor(1)
        pool.submit(print)  # its thread ends with the interpreter only

        def work():
            time.sleep(1)
            torch.compile(lambda x: x + 1, backend="aot_eager")(torch.ones(3))

        threading.Thread(target=work).start()
        threading.Thread(target=time.sleep, args=(1000,), daemon=True).start()
    """
    assert finished(survey(child, script(home, text))).checked.calls == 1


def test_threads_that_speak_at_once_speak_in_turns() -> None:
    outgoing, incoming = os.pipe()
    channel = Channel(outgoing, incoming)
    text = "x" * 100_000  # more than a pipe takes at once
    threads = [threading.Thread(target=channel.send, args=({"from": n, "text": text},)) for n in range(8)]
    for thread in threads:
        thread.start()
    heard = [channel.receive() for _ in threads]
    for thread in threads:
        thread.join()
    assert sorted(message["from"] for message in heard if message and message["text"] == text) == list(range(8))
    os.close(incoming)
    os.close(outgoing)


def test_a_call_that_a_thread_holds_outlives_the_script(child: Executor, home: Path) -> None:
    text = (
        BACKENDS
        + """
import threading, time

def work():
    torch.compile(lambda x: x + 1, backend=wrong)(torch.ones(3))

threading.Thread(target=work, daemon=True).start()
time.sleep(DELAY)
"""
    )
    found = survey(child, script(home, text.replace("DELAY", "10")))
    assert found.held is not None, found.finished
    assert found.held.failure.kind == "wrong_output"
    assert found.program("aot").level == "aot"
    found.close()


# errors that only eager raises ----------------------------------------------------------------------------------------


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


def test_a_graph_inside_a_transform_is_written_as_it_is(child: Executor, home: Path) -> None:
    """Values of a transform are wrappers that live no longer than it: they are not asked for, and not saved."""
    text = (
        BACKENDS
        + """
torch.compile(lambda x, t: torch.func.jvp(torch.sin, (x,), (t,)), backend=wrong)(torch.ones(3), torch.ones(3))
"""
    )
    found = survey(child, script(home, text))
    assert found.held is not None
    program = found.program("dynamo")
    assert "torch.sin" in targets(program)
    values = [node.name for node in program.nodes if node.meta is not None]
    late = [f"{name}@{program.nodes[-1].name}" for name in values]
    assert found.golden(frozenset([*values, *late, "l_x_"])).exists()
    found.close()


# failures that come and go without the compiler -----------------------------------------------------------------------

SOMETIMES = """
import torch

calls = []

@torch.library.custom_op("test::sometimes", mutates_args=())
def sometimes(x: torch.Tensor) -> torch.Tensor:
    calls.append(1)
    {}
    return x + (len(calls) % 5 == 3)

@sometimes.register_fake
def _(x):
    return torch.empty_like(x)

for _ in range(2):
    torch.compile(lambda x: torch.ops.test.sometimes(x) * 2, backend="aot_eager")(torch.ones(3))
"""


@pytest.mark.parametrize("how", ["pass", "if len(calls) % 5 == 3: raise ValueError"])
def test_an_operator_that_seldom_differs_from_itself_is_nondeterministic(triage: Any, how: str) -> None:
    found = triage(SOMETIMES.format(how))
    assert isinstance(found, Settled)
    assert (found.status, found.reason) == (Status.FAILED, Reason.NONDETERMINISTIC)


def test_a_script_that_fails_in_half_of_its_runs_without_the_compiler_is_nondeterministic(triage: Any) -> None:
    text = """
        import os
        import torch
        torch.compile(lambda x: x + 1, backend="eager")(torch.ones(3))
        count = "../../../count"  # behind the folder of the run, as a server would be
        runs = int(open(count).read()) if os.path.exists(count) else 0
        open(count, "w").write(str(runs + 1))
        assert runs % 2 == 0
    """
    found = triage(text)
    assert isinstance(found, Settled)
    assert (found.status, found.reason) == (Status.FAILED, Reason.NONDETERMINISTIC)


def test_the_branches_of_an_operator_become_functions(child: Executor, home: Path) -> None:
    text = (
        BACKENDS
        + """
def f(x, y, flag):
    return torch.cond(flag, lambda x: (x * y, float("nan") * x), lambda x: (x.cos(), x + 1), (x,))

torch.compile(f, backend=wrong)(torch.ones(3, 2), torch.ones(2), torch.tensor(True))
"""
    )
    found = survey(child, script(home, text))
    assert found.held is not None, found.finished
    program = found.program("dynamo")
    assert "torch.ops.higher_order.cond" in targets(program)
    functions = render.setup(program)
    assert len(functions) == 2
    assert any('float("nan")' in text for text in functions)
    again = replace(program, compile_kwargs=(("backend", "'aot_eager'"),))
    public = replace(again, nodes=tuple(_publicly(node) for node in again.nodes))
    assert public != again
    outcomes = Oracle(child, found, ()).judge([again, public])
    assert [outcome.outcome for outcome in outcomes] == ["same", "same"], outcomes
    found.close()


def _publicly(node: Node) -> Node:
    """``torch.cond``, which compiles something in eager too."""
    return next((plainer for plainer in candidates(node) if plainer.target == "torch.cond"), node)


@pytest.mark.parametrize(
    ("call", "functions"),
    [
        ("torch.cond(flag, lambda x: x.sin(), lambda x: x.cos(), (x,))", 2),
        ("while_loop(lambda n, x: n < 3, lambda n, x: (n + 1, x * scale), (torch.zeros(()), x))[1]", 2),
        ("scan(lambda carry, row: (carry + row, carry * row), scale, x)[1]", 1),
        ("torch._higher_order_ops.map(lambda row, scale: row * scale, x, scale)", 1),
    ],
    ids=["cond", "while_loop", "scan", "map"],
)
def test_what_an_operator_calls_runs_in_its_place(child: Executor, home: Path, call: str, functions: int) -> None:
    text = f"""{BACKENDS}
import torch._higher_order_ops
from torch._higher_order_ops.scan import scan
from torch._higher_order_ops.while_loop import while_loop

def f(x, scale, flag):
    return {call}

torch.compile(f, backend=wrong)(torch.rand(3, 2), torch.rand(2), torch.tensor(True))
"""
    found = survey(child, script(home, text))
    assert found.held is not None, found.finished
    program = replace(found.program("dynamo"), compile_kwargs=(("backend", "'aot_eager'"),))
    ways = [candidate for candidate in opened(program) if candidate is not None]
    assert len(ways) == functions
    for candidate in ways:
        (outcome,) = Oracle(child, found, ()).judge([candidate])
        assert outcome.outcome == "same", outcome
        assert candidate.called == ()
    found.close()


def test_a_region_that_is_compiled_once_is_lowered_where_it_is_called(child: Executor, home: Path) -> None:
    text = f"""{BACKENDS}
@torch.compiler.nested_compile_region
def region(x, by):
    return torch.log1p(x) * by

def f(x):
    return region(region(x, 2), 3)

torch.compile(f, backend=wrong)(torch.rand(3))
"""
    found = survey(child, script(home, text))
    assert found.held is not None, found.finished
    program = replace(found.program("aot"), compile_kwargs=(("backend", "'aot_eager'"),))
    assert targets(program).count("torch.ops.aten.log1p.default") == 2
    (outcome,) = Oracle(child, found, ()).judge([program])
    assert outcome.outcome == "same", outcome
    found.close()


@pytest.mark.parametrize("captured", ["", "score", "mask", "score and mask"])
def test_an_attention_with_functions_of_its_own_is_compiled_as_the_graph_has_it(
    child: Executor, home: Path, captured: str
) -> None:
    """Dynamo takes what such functions capture for arguments, and refuses arguments for it from whoever calls the operator."""
    text = f"""{BACKENDS}
from torch.nn.attention.flex_attention import create_block_mask, flex_attention

slopes, lengths = torch.tensor([1.0, 0.5]), torch.tensor([7])
by = slopes if {"score" in captured} else [2.0, 2.0]
until = lengths if {"mask" in captured} else [7]
mask = create_block_mask(lambda b, h, i, j: j < until[0], None, None, 8, 8, device="cpu")

def attend(q):
    def score(score, b, h, i, j):
        return score - (i - j).abs() * (by[h] if {"score" in captured} else 2.0)
    return flex_attention(q, q, q, score_mod=score, block_mask=mask)

with torch.no_grad():
    torch.compile(attend, backend=wrong)(torch.rand(1, 2, 8, 16))
"""
    found = survey(child, script(home, text))
    assert found.held is not None, found.finished
    for level in ("dynamo",) if "mask" in captured else ("dynamo", "aot"):
        program = replace(found.program(level), compile_kwargs=(("backend", "'aot_eager'"),))
        assert targets(program).count("functools.partial") == len(captured.split(" and ")) * bool(captured)
        ways = [program, *(candidate for candidate in opened(program) if candidate is not None)]
        assert len(ways) == 3
        for candidate in ways:
            (outcome,) = Oracle(child, found, ()).judge([candidate])
            assert outcome.outcome == "same", outcome
    found.close()


def test_a_backward_is_replayed_under_the_autocast_of_its_call(child: Executor, home: Path) -> None:
    """The script leaves its autocast before it asks for gradients; eager in full precision would be no judge of them."""
    text = """
import torch
linear = torch.nn.Linear(32, 8)
compiled = torch.compile(linear, backend="aot_eager")
torch.manual_seed(0)
with torch.autocast("cpu", dtype=torch.float16):
    loss = compiled(torch.randn(16, 32)).float().square().mean()
loss.backward()
"""
    found = finished(survey(child, script(home, text)))
    assert (found.checked.calls, found.checked.backward) == (1, 1)
