"""Repros of every kind, run for real: 1 while the bug is there, 0 once it is gone or the compiler is off, 125 where nobody can tell."""

from __future__ import annotations

import math
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import BuiltinFunctionType, FunctionType
from typing import Any

import pytest
import torch
from children import trial
from warm import SCRIPT, Warm

from minimizer.engine.child.outcome import Outcome
from minimizer.engine.emit import Details, Repro, emit, prose
from minimizer.engine.levels.from_outcomes import details_of
from minimizer.engine.program import render
from minimizer.engine.program.arguments import Ref
from minimizer.engine.program.model import Input, Node, Program, TensorMeta
from minimizer.inside.questions import GivenInput
from minimizer.inside.referee.call import Call
from minimizer.inside.tasks import trial as judging
from minimizer.inside.wire import Channel, plain
from minimizer.report.model import Failure, Reproducibility
from minimizer.vocabulary import Kind

RELU_BUG = 'torch._inductor.config.cpp.inject_relu_bug_TESTING_ONLY = "{}"'
LOG1P_BUG = 'torch._inductor.config.cpp.inject_log1p_bug_TESTING_ONLY = "accuracy"'
PASS = """\
class Pass(CustomGraphPass):
    def __call__(self, graph):
        {}

    def uuid(self):
        return None
"""
PASS_SETUP = ("import os", "import time", "from torch._inductor.custom_graph_pass import CustomGraphPass")
BACKEND = "def run(graph, inputs):\n    return lambda *args: {}"
USE_PASS = "torch._inductor.config.post_grad_custom_post_pass = Pass()"
FREEZING = (
    *PASS_SETUP,
    PASS.format(
        "for node in graph.find_nodes(op='call_function', target=torch.ops.aten.add.Tensor):\n"
        "            node.target = torch.ops.aten.sub.Tensor if node.args[1].op == 'get_attr' else node.target"
    ),
    "torch._inductor.config.freezing = True",
    USE_PASS,
)


@dataclass
class Case:
    """A hand-made program and what its repro must say."""

    kind: Kind
    inputs: list[str]
    nodes: list[tuple[str, tuple[object, ...]]]
    says: str
    setup: tuple[str, ...] = ()
    details: Details = field(default_factory=lambda: Details())
    message: str = ""
    exception: str | None = None
    grad: bool = False
    rate: tuple[int, int] = (3, 3)
    outputs: tuple[str, ...] = ()
    backend: str = ""
    dynamic: bool = False
    frozen: str = ""

    def program(self) -> Program:
        meta = TensorMeta((2,), "torch.float32", requires_grad=self.grad)
        last = f"v{len(self.nodes) - 1}"
        names = "xyz"[: len(self.inputs)]
        return Program(
            inputs=tuple(
                Input(name, meta, code=code, frozen=name in self.frozen)
                for name, code in zip(names, self.inputs, strict=True)
            ),
            nodes=tuple(Node(f"v{i}", target, args) for i, (target, args) in enumerate(self.nodes)),
            outputs=self.outputs or (last,),
            compile_kwargs=(("backend", self.backend),) * bool(self.backend) + (("dynamic", "True"),) * self.dynamic,
            setup=self.setup,
            grad=self.grad,
        )

    def repro(self) -> Repro:
        failure = Failure(kind=self.kind, message=self.message, exception_type=self.exception)
        rate = Reproducibility(failed=self.rate[0], runs=self.rate[1])
        return emit(
            self.program(),
            failure,
            [],
            environment={"torch": "2.13.0", "device": "cpu"},
            rate=rate,
            details=self.details,
        )


X, Y = Ref("x"), Ref("y")
CASES = {
    "wrong_output": Case(
        Kind.WRONG_OUTPUT, ["torch.tensor([-1.0, 1.0])"], [("torch.relu", (X,))], "actual   tensor([0., 2.])", (RELU_BUG.format("accuracy"),)
    ),
    "exact_output": Case(
        Kind.WRONG_OUTPUT,
        ["torch.zeros(2, dtype=torch.bfloat16)", "torch.ones(2, dtype=torch.bfloat16)"],
        [("torch.nextafter", (X, Y))],
        "Mismatched elements: 2 / 2",
        details={"rtol": 0.0, "atol": 0.0},
    ),
    "exact_output_without_nan": Case(
        Kind.WRONG_OUTPUT, ["torch.tensor([-1.0, 1.0])"], [(".relu", (X,))],
        "AssertionError: expected=tensor([0., 1.]), actual=tensor([0., 2.])", (RELU_BUG.format("accuracy"),),
        details={"rtol": 0.0, "atol": 0.0, "comparable": "tensor"},
    ),
    "values_that_become_nan": Case(
        Kind.WRONG_OUTPUT, ["torch.ones(2)"], [("operator.add", (X, 1))], "actual=tensor([nan, nan])",
        (BACKEND.format("[out * float('nan') for out in graph(*args)]"),),
        details={"rtol": 0.0, "atol": 0.0, "comparable": "tensor"}, backend="run",
    ),
    "several_outputs_without_nan": Case(
        Kind.WRONG_OUTPUT, ["torch.tensor([-1.0, 1.0])"], [("torch.relu", (X,)), ("torch.neg", (X,))],
        "AssertionError: expected=(tensor([0., 1.]), tensor([ 1., -1.])), actual=(tensor([0., 2.]), tensor([ 1., -1.]))",
        (RELU_BUG.format("accuracy"),), details={"comparable": "values"}, outputs=("v0", "v1"),
    ),
    "frozen_input": Case(
        Kind.WRONG_OUTPUT,
        ["torch.ones(2)", "torch.ones(2)"],
        [("operator.add", (X, Y))],
        "actual=tensor([0., 0.])",
        FREEZING,
        details={"comparable": "values"},
        frozen="y",
    ),
    "frozen_input_and_a_draw": Case(
        Kind.WRONG_OUTPUT,
        ["torch.ones(2)", "torch.ones(2)"],
        [("torch.rand_like", (X,)), ("operator.mul", (Ref("v0"), 0)), ("operator.add", (Ref("v1"), Y))],
        "actual=tensor([-1., -1.])",
        FREEZING,
        details={"comparable": "values"},
        frozen="y",
    ),
    "nan_on_both_sides": Case(
        Kind.WRONG_OUTPUT, ["torch.tensor([float('nan'), 1.0])"], [("torch.relu", (X,))], "actual   tensor([nan, 2.])",
        (RELU_BUG.format("accuracy"),), details={"rtol": 0.0, "atol": 0.0},
    ),
    "mutated_input": Case(
        Kind.WRONG_OUTPUT,
        ["torch.rand(8, 8)"],
        [(".flip", (X, 0)), ("torch._foreach_add_", ([X], [Ref("v0")]))],
        "AssertionError",
        details={"mutated": ["x"], "comparable": "values"},
    ),
    "wrong_gradient": Case(
        Kind.WRONG_GRADIENT,
        ["torch.tensor([1.0, 2.0])"],
        [("torch.log1p", (X,)), ("torch.mul", (Ref("v0"), Ref("v0")))],
        "AssertionError: expected=(tensor(",
        (LOG1P_BUG,),
        details={"comparable": "values"},
        grad=True,
    ),
    "wrong_metadata": Case(
        Kind.WRONG_METADATA,
        ["torch.ones(3).half()", "torch.ones(3)"],
        [("torch.ldexp", (X, Y))],
        "AssertionError: expected=torch.float32, actual=torch.float16",
        details={"aspect": "dtype", "output": ""},
    ),
    "gradient_of_one_call": Case(
        Kind.WRONG_GRADIENT,
        ["torch.tensor([1.0, 2.0])"],
        [("torch.log1p", (X,))],
        "AssertionError: expected=(tensor([0.5000, 0.3333]),), actual=(tensor([1.5000, 1.3333]),)",
        (BACKEND.format("[out + args[0] for out in graph(*args)]"),),
        details={"comparable": "values"},
        grad=True,
        backend="run",
    ),
    "gradient_of_one_of_several": Case(
        Kind.WRONG_GRADIENT,
        ["torch.tensor([1.0, 2.0])"],
        [("torch.log1p", (X,)), ("torch.mul", (Ref("v0"), Ref("v0"))), ("torch.sort", (Ref("v1"),))],
        "AssertionError",
        (LOG1P_BUG,),
        details={"differentiated": {"[0]": "torch.float32"}},
        grad=True,
    ),
    "gradient_of_several": Case(
        Kind.WRONG_GRADIENT,
        ["torch.tensor([1.0, 2.0])"],
        [("torch.log1p", (X,)), ("torch.mul", (Ref("v0"), Ref("v0"))), ("torch.chunk", (Ref("v1"), 2))],
        "AssertionError",
        (LOG1P_BUG,),
        details={"differentiated": {"[0]": "torch.float32", "[1]": "torch.float32"}},
        grad=True,
    ),
    "gradient_of_nested_and_complex": Case(
        Kind.WRONG_GRADIENT,
        ["torch.tensor([1.0, 2.0])"],
        [("torch.log1p", (X,)), ("torch.mul", (Ref("v0"), Ref("v0"))), ("torch.chunk", (Ref("v1"), 2)), ("torch.complex", (X, Ref("v1")))],
        "AssertionError",
        (LOG1P_BUG,),
        details={"differentiated": {"[0][0]": "torch.float32", "[0][1]": "torch.float32", "[1]": "torch.complex64"}},
        grad=True,
        outputs=("v2", "v3"),
    ),
    "shared_memory": Case(
        Kind.WRONG_METADATA,
        ["torch.ones(2)"],
        [("operator.add", (X, 1)), (".view", (Ref("v0"), 2, 1))],
        "AssertionError: shared memory: expected=True, actual=False",
        (BACKEND.format("[out.clone() for out in graph(*args)]"),),
        details={"aspect": "aliasing", "output": "[1]", "alias_of_output": "[0]"},
        outputs=("v0", "v1"),
        backend="run",
    ),
    "memory_of_an_input": Case(
        Kind.WRONG_METADATA,
        ["torch.ones(2)"],
        [("operator.add", (X, 0))],
        "AssertionError: shared memory: expected=False, actual=True",
        (BACKEND.format("[args[0]]"),),
        details={"aspect": "aliasing", "output": "", "alias_of": "x"},
        backend="run",
    ),
    "one_object": Case(
        Kind.WRONG_METADATA,
        ["torch.ones(2)"],
        [("operator.add", (X, 1)), (".view", (Ref("v0"), -1))],
        "AssertionError: one object: expected=False, actual=True",
        (BACKEND.format("[graph(*args)[0]] * 2"),),
        details={"aspect": "identity", "output": "[1]", "alias_of_output": "[0]"},
        outputs=("v0", "v1"),
        backend="run",
    ),
    "stride_of_an_input": Case(
        Kind.WRONG_METADATA,
        ["torch.ones(2, 3)"],
        [("operator.add", (X, 1))],
        "AssertionError: expected=(3, 1), actual=(1, 3)",
        (BACKEND.format("graph(*(arg.t_() for arg in args))"),),
        details={"aspect": "stride", "input": "x"},
        backend="run",
    ),
    "layout": Case(
        Kind.WRONG_METADATA,
        ["torch.ones(2)"],
        [("operator.add", (X, 1))],
        "AssertionError: expected=torch.strided, actual=torch.sparse_coo",
        (BACKEND.format("[out.to_sparse() for out in graph(*args)]"),),
        details={"aspect": "layout", "output": ""},
        backend="run",
    ),
    "compile_error": Case(
        Kind.COMPILE_ERROR,
        ["torch.ones(2)"],
        [("torch.relu", (X,))],
        "CppCompileError",
        (RELU_BUG.format("compile_error"),),
        message="C++ compile error\n\nOutput:\n/x/k.cpp:15:33: error: 'compile' was not declared in this scope",
        exception="torch._inductor.exc.CppCompileError",
    ),
    "compile_error_that_is_said": Case(
        Kind.COMPILE_ERROR,
        ["torch.ones(2)"],
        [("torch.relu", (X,))],
        "actual   BackendCompilerFailed: backend='run' raised:\n",
        ("def run(graph, inputs):\n    raise KeyError('no kernel for this shape')",),
        details={"said": "BackendCompilerFailed: backend='run' raised:\nKeyError: 'no kernel for this shape'"},
        message="KeyError: 'no kernel for this shape'",
        exception="KeyError",
        backend="run",
    ),
    "runtime_error": Case(
        Kind.RUNTIME_ERROR,
        ["torch.ones(2)"],
        [("torch.relu", (X,))],
        "RuntimeError: unhandled error",
        (RELU_BUG.format("runtime_error"),),
        message="unhandled error",
        exception="RuntimeError",
    ),
    "missing_error": Case(
        Kind.MISSING_ERROR,
        ["torch.full((3,), 2.0)"],
        [("torch.nn.functional.binary_cross_entropy", (X, X))],
        "AssertionError: expected='RuntimeError', actual=None",
        details={"eager_error": "RuntimeError"},
    ),
    "missing_error_of_one_call": Case(
        Kind.MISSING_ERROR,
        ["torch.full((3,), 2.0)"],
        [("torch.bernoulli", (X,))],
        "AssertionError: expected='RuntimeError', actual=None",
        (BACKEND.format("list(args)"),),
        details={"eager_error": "RuntimeError"},
        backend="run",
    ),
    "constants_of_one_call": Case(
        Kind.WRONG_OUTPUT,
        ["torch.tensor([1.0, 2.0])"],
        [("torch.full_like", (X, math.inf))],
        "AssertionError: expected=tensor([inf, inf]), actual=tensor([1., 2.])",
        (BACKEND.format("list(args)"),),
        details={"comparable": "tensor"},
        backend="run",
    ),
    "operator_of_one_call": Case(
        Kind.WRONG_OUTPUT,
        ["torch.tensor([[1.0], [2.0]])"],
        [("torch.ops.aten.sum.dim_IntList", (X, [0], True))],
        "AssertionError: expected=tensor([[3.]]), actual=tensor([[6.]])",
        (BACKEND.format("[2 * out for out in graph(*args)]"),),
        details={"comparable": "tensor"},
        backend="run",
    ),
    "dynamic_shapes_of_one_call": Case(
        Kind.WRONG_OUTPUT,
        ["torch.ones(3, 4)", "torch.ones(5, 4)"],
        [("torch.nn.functional.linear", (X, Y))],
        "AssertionError: expected=tensor([[4., 4., 4., 4., 4.],",
        (BACKEND.format("[2 * out for out in graph(*args)]"),),
        details={"comparable": "tensor"},
        backend="run",
        dynamic=True,
    ),
    "backend_by_name_of_one_call": Case(
        Kind.WRONG_OUTPUT,
        ["torch.tensor([-1.0, 1.0])"],
        [("torch.relu", (X,))],
        "AssertionError: expected=tensor([0., 1.]), actual=tensor([0., 2.])",
        (RELU_BUG.format("accuracy"),),
        details={"comparable": "tensor"},
        backend="'inductor'",
    ),
    "missing_error_of_an_operator": Case(
        Kind.MISSING_ERROR,
        ["torch.full((3,), 2.0)"],
        [("torch.ops.lib.same.default", (X,)), ("torch.nn.functional.binary_cross_entropy", (Ref("v0"), X))],
        "AssertionError: expected='RuntimeError', actual=None",
        (
            "def same(x):\n    return x.clone()",
            'lib = torch.library.Library("lib", "DEF")',
            'lib.define("same(Tensor x) -> Tensor")',
            'lib.impl("same", same, "CompositeExplicitAutograd")',
        ),
        details={"eager_error": "RuntimeError"},
    ),
    "crash": Case(
        Kind.CRASH,
        ["torch._efficientzerotensor(3)"],
        [("operator.getitem", (X, -1)), ("operator.add", (Ref("v0"), 10))],
        "expected exit status 0, actual -11",
        details={"signal": "SIGSEGV"},
    ),
    "crash_of_one_call": Case(
        Kind.CRASH,
        ["torch.ones(2)"],
        [("torch.sin", (X,))],
        "expected exit status 0, actual -11",
        (*PASS_SETUP, PASS.format("os.kill(os.getpid(), 11)"), USE_PASS),
        details={"signal": "SIGSEGV"},
    ),
    "crash_of_overwritten_memory": Case(
        Kind.CRASH,
        ["torch.ones(2)"],
        [("torch.cos", (X,))],
        "expected exit status 0, actual -11",  # where it was SIGABRT before
        (*PASS_SETUP, PASS.format("os.kill(os.getpid(), 11)"), USE_PASS),
        details={"signal": "SIGABRT", "overwrites": True},
    ),
    "crash_where_eager_raises": Case(
        Kind.CRASH,
        ["torch.ones(2)", "torch.tensor([5])"],
        [("torch.take", (X, Y))],
        "expected exit status 0, actual -11",
        (*PASS_SETUP, PASS.format("os.kill(os.getpid(), 11)"), USE_PASS),
        details={"signal": "SIGSEGV", "eager_error": "IndexError"},
    ),
    "hang": Case(
        Kind.HANG,
        ["torch.ones(2)"],
        [("torch.sin", (X,))],
        "Timeout (",
        (*PASS_SETUP, PASS.format("time.sleep(1000)"), USE_PASS),
        details={"hang_after": 10.0, "stuck_in": "__call__"},
    ),
    "flaky": Case(
        Kind.WRONG_OUTPUT,
        ["torch.ones(2)", "torch.ones(2)"],
        [("torch.add", (X, Y))],
        "AssertionError",
        (*PASS_SETUP, "compilations = []", PASS.format("""compilations.append(1)
        for node in graph.find_nodes(op="call_function", target=torch.ops.aten.add.Tensor):
            if len(compilations) > 1:
                node.replace_all_uses_with(node.args[0])"""), USE_PASS),
        details={"comparable": "tensor", "rtol": 0.0, "atol": 0.0},
        rate=(1, 2),
    ),
}  # fmt: skip

Start = Callable[..., "subprocess.Popen[str]"]
Ended = tuple[int, str]


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Compiled kernels and headers are shared between the runs; a processor's vector instructions are not probed in each."""
    cache = tmp_path_factory.mktemp("cache")
    return {
        "PATH": os.environ["PATH"],
        "LANG": "C.UTF-8",
        "TMPDIR": str(cache),
        "TORCHINDUCTOR_CACHE_DIR": str(cache / "inductor"),
        "TORCHINDUCTOR_COMPILE_THREADS": "1",
        "TORCHINDUCTOR_VEC_ISA_OK": "1",
    }


@pytest.fixture(scope="module")
def start(tmp_path_factory: pytest.TempPathFactory, environment: dict[str, str]) -> Start:
    """Start a repro in a folder and a process of its own."""

    def start(source: str, **env: str) -> subprocess.Popen[str]:
        folder = tmp_path_factory.mktemp("repro")
        (folder / SCRIPT).write_text(source)
        return subprocess.Popen(
            [sys.executable, SCRIPT],
            cwd=folder,
            env={**environment, "HOME": str(folder), **env},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    return start


@pytest.fixture(scope="module")
def both(
    tmp_path_factory: pytest.TempPathFactory, environment: dict[str, str]
) -> Iterator[Callable[[str], tuple[Ended, Ended]]]:
    """How a repro ends with the compiler, and without, in folders of its own."""
    sides = (Warm(environment), Warm({**environment, "TORCHDYNAMO_DISABLE": "1"}))

    def both(source: str) -> tuple[Ended, Ended]:
        for side in sides:
            folder = tmp_path_factory.mktemp("repro")
            (folder / SCRIPT).write_text(source)
            side.begin(folder)
        compiled, eager = sides
        return compiled.ended(), eager.ended()

    yield both
    for side in sides:
        side.close()


def ended(process: subprocess.Popen[str]) -> Ended:
    output, _ = process.communicate(timeout=240)
    return process.returncode, output


SLOW = {
    "hang", "crash", "crash_of_one_call", "crash_of_overwritten_memory", "crash_where_eager_raises", "backend_by_name_of_one_call",
    "gradient_of_one_of_several",
}  # fmt: skip


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.quality("slow")] if name in SLOW else []) for name in CASES]
)
@pytest.mark.examples(10)
def test_a_repro_fails_with_the_compiler_and_passes_without(
    both: Callable[[str], tuple[Ended, Ended]], name: str
) -> None:
    case = CASES[name]
    repro = case.repro()
    (status, output), (eager, eager_output) = both(repro.source)
    assert (status, case.says in output, repro.evidence in output) == (1, True, True), output
    assert eager == 0, eager_output


def test_only_functions_that_every_torch_compiles_as_they_are_go_without_a_wrapper() -> None:
    """What torch defines in Python is left uncompiled by some versions of ``torch.compile``."""
    names = {*torch.functional.__all__, *(name for name in dir(torch) if re.match("sym_(?!fresh)", name))}
    in_python = {name for name in names if isinstance(getattr(torch, name, None), FunctionType)}
    assert {"cdist", "sym_max"} <= in_python <= {name.removeprefix("torch.") for name in prose.IN_PYTHON}
    for package in (torch.fft, torch.linalg, torch.special):
        assert package.__name__ in prose.PACKAGES
        public = [getattr(package, name) for name in dir(package) if not name.startswith("_")]
        assert any(isinstance(found, BuiltinFunctionType) for found in public)
        assert not any(isinstance(found, FunctionType) for found in public)
    assert all(isinstance(getattr(torch.nn.functional, name), BuiltinFunctionType) for name in prose.BUILT_IN)


@pytest.mark.quality("slow")
def test_a_repro_passes_once_the_bug_is_gone_and_says_so_where_it_cannot_run(start: Start) -> None:
    wrong, failing = CASES["wrong_output"].repro().source, CASES["compile_error"].repro().source
    bug = [line for line in wrong.splitlines() if "inject" in line]
    assert len(bug) == 1
    elsewhere = wrong.replace("torch.tensor([-1.0, 1.0])", 'torch.ones(2, device="cuda:77")')
    fixed = start(wrong.replace(bug[0], "    pass"))
    cannot_run = [
        start(wrong, CXX="/nonexistent", TORCHINDUCTOR_CACHE_DIR="cache"),
        start(failing, CXX="/nonexistent", TORCHINDUCTOR_CACHE_DIR="cache"),
        start(elsewhere),
        start(wrong.replace("inject_relu_bug_TESTING_ONLY", "not_in_this_version")),
        start(wrong.replace("(x)", "(x, x, x)")),
    ]
    assert ended(fixed)[0] == 0
    assert [ended(process)[0] for process in cannot_run] == [125] * 5


def test_data_is_read_from_beside_the_script(start: Start, tmp_path: Path) -> None:
    program = Program(
        inputs=(Input("x", TensorMeta((2, 3), "torch.float32", stride=(1, 2)), golden="x"),),
        nodes=(Node("out", "torch.relu", (Ref("x"),)),),
        outputs=("out",),
        setup=(RELU_BUG.format("accuracy"),),
    )
    rate = Reproducibility(failed=1, runs=1)
    repro = emit(program, Failure(kind=Kind.WRONG_OUTPUT), [], environment={}, rate=rate)
    make = 'import torch; torch.save({"x": torch.arange(6.0).view(3, 2).T}, "data.pt")\n'
    status, output = ended(
        start(make + repro.source.replace("data = ", 'assert Path("data.pt").exists()\n    data = '))
    )
    assert status == 1 and "AssertionError: Tensor-likes" in output, output
    assert ended(start(repro.source))[0] == 125  # no data beside it


class Sent(Channel):
    """Keeps what a trial sends."""

    def __init__(self) -> None:
        self.messages: list[dict[str, Any]] = []

    def send(self, message: Any) -> None:
        self.messages.append(plain(message))


@pytest.mark.parametrize(
    ("nodes", "outputs"),
    [
        ([(".sin", (X,))], ["v0"]),
        ([(".sort", (X,))], ["v0"]),
        ([("torch.chunk", (X, 2))], ["v0"]),
        ([("torch.polar", (X, X))], ["v0"]),
        ([("torch.sin", (X,)), ("torch.argsort", (X,))], ["v0", "v1"]),
        ([("torch.chunk", (X, 2)), ("torch.polar", (X, X)), ("torch.sort", (X,))], ["v0", "v1", "v2"]),
    ],
)
def test_a_repro_differentiates_what_the_judge_does(
    nodes: list[tuple[str, tuple[object, ...]]], outputs: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is compiled: what the repro calls expected must be the gradients that were compared."""
    monkeypatch.setattr(torch, "compile", lambda function, **options: function)
    case = Case(Kind.WRONG_GRADIENT, ["torch.tensor([2.0, 1.0])"], nodes, "", grad=True, outputs=tuple(outputs))
    request = trial(f"{render.function(case.program())}\nreturn f(x)", grad=True)
    request = replace(request, inputs=[GivenInput(name="x", code=case.inputs[0], requires_grad=True)])
    sent = Sent()
    judging.judge(request.message(), sent)
    case.details = details_of(case.program(), Outcome.model_validate(sent.messages[-1]), None)
    found: dict[str, Any] = {}
    exec(f"import torch\n{render.function(case.program())}", found)
    exec(case.repro().source, found)
    call = Call.now(found["f"], [found["x"]]).behind(None)
    torch.testing.assert_close(found["expected"], tuple(call.run(call.function).gradients))
