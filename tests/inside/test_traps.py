"""Where PyTorch's own tools are led astray (traps 1, 2, 3, 4, 7, 10 and 11): this one is not.

Every trap has tests that bear its number, next to what they test; ``grep -rn trap_ tests`` finds them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from textwrap import dedent

import pytest
import torch
from children import SECONDS, executor, place, script, survey

from minimizer.engine.child.executor import Executor
from minimizer.engine.oracle.oracle import Oracle
from minimizer.engine.oracle.signature import exception_signature
from minimizer.engine.program import render
from minimizer.engine.reduce.graph.passes.numbers import static
from minimizer.engine.witness import minifier
from minimizer.vocabulary import Kind

DROPS_SIN = """
import torch
import torch._inductor.config as config
from torch._inductor.custom_graph_pass import CustomGraphPass


class DropsSin(CustomGraphPass):
    def __call__(self, graph):
        for node in list(graph.nodes):
            if node.target is torch.ops.aten.sin.default:
                node.replace_all_uses_with(node.args[0])
                graph.erase_node(node)

    def uuid(self):
        return "drops sin"


config.post_grad_custom_post_pass = DropsSin()
"""
CALL = """
torch.manual_seed(0)
torch.compile(lambda x: torch.sin(x) + 1)(torch.randn(8))
"""
CACHES = {"TORCHINDUCTOR_FX_GRAPH_CACHE": "1", "TORCHINDUCTOR_AUTOGRAD_CACHE": "1"}


@pytest.fixture(scope="module")
def child(tmp_path_factory: pytest.TempPathFactory, home: Path) -> Iterator[Executor]:
    """With warm graph caches allowed, which are off otherwise."""
    with executor(tmp_path_factory.mktemp("scratch"), home, env=CACHES) as started:
        yield started


def test_trap_01_the_witness_that_breaks_a_correct_script_is_not_believed(child: Executor, home: Path) -> None:
    """Under TORCHDYNAMO_REPRO_AFTER=dynamo a correct ``sin(x) + 1`` fails to compile."""
    path = script(
        home, "import torch\ntorch.compile(lambda x: torch.sin(x) + 1, backend='aot_eager')(torch.randn(8))\n"
    )
    ours = survey(child, path).finished
    assert ours is not None
    assert ours.exception is None
    assert ours.checked.calls == 1
    heard = minifier.hear(
        place(child.place.scratch, home),
        path,
        [],
        Kind.COMPILE_ERROR,
        seconds=lambda: SECONDS,
        parallel=1,
        watch=lambda: None,
    )
    assert [testimony.after for testimony in heard] == ["dynamo", "aot"]
    assert not any(testimony.sees for testimony in heard)


@pytest.mark.quality("slow")
def test_trap_02_a_fault_of_a_post_grad_pass_is_seen(child: Executor, home: Path) -> None:
    """The reference is the graph before the compiler touched it."""
    found = survey(child, script(home, DROPS_SIN + CALL, "passes.py")).held
    assert found is not None
    assert found.failure.kind == "wrong_output"
    assert [node["target"] for node in found.program["nodes"]] == ["torch.sin", "operator.add"]
    assert found.program["opaque_settings"] == ["torch._inductor.config.post_grad_custom_post_pass"]


@pytest.mark.quality("slow")
def test_trap_03_a_warm_graph_cache_hides_nothing(child: Executor, home: Path) -> None:
    """The same script twice on one cache: the second time nothing is compiled, and the fault is there all the same."""
    path = script(home, DROPS_SIN + CALL, "twice.py")
    seen = []
    for _ in range(2):
        answer = survey(child, path)
        assert answer.held is not None, answer.finished
        seen.append(answer.held.failure.kind)
        answer.close()
    assert seen == ["wrong_output", "wrong_output"]


MISCOMPILES = {
    198101: (
        """
        def f(x):
            y = x.view(torch.int32) * 2
            y.sub_(-4)
            x[:, 2:5] = 2
            return y.view(torch.int64), x
        """,
        "torch.arange(48).reshape(6, 8)",
    ),
    198033: ("def f(x):\n    torch._foreach_add_([x], [x.flip(0)])\n    return x", "torch.rand(8, 8)"),
    198094: (
        """
        def f(x):
            y = torch.slice_scatter(x, torch.ones(2, 4), 0, 0, 2)
            x.zero_()
            return y
        """,
        "torch.rand(4, 4)",
    ),
}
"""Real ones of torch 2.13, by issue: source and argument. All of them give wrong values."""


@pytest.mark.parametrize("issue", MISCOMPILES)
def test_trap_04_real_miscompiles_are_seen(child: Executor, home: Path, issue: int) -> None:
    source, argument = MISCOMPILES[issue]
    text = f"import torch\n{dedent(source)}\ntorch.manual_seed(0)\ntorch.compile(f)({argument})\n"
    found = survey(child, script(home, text, f"issue_{issue}.py"))
    assert found.held is not None, found.finished
    assert found.held.failure.kind == "wrong_output"
    found.close()


def test_trap_07_golden_values_are_taken_at_their_time(child: Executor, home: Path) -> None:
    """``a = x.sin(); a.mul_(100)``: the sine is a hundred times smaller than what the object holds in the end."""
    text = """
        import torch

        def wrong(gm, example):
            return lambda *args: [out + 1 for out in gm(*args)]

        @torch.compile(backend=wrong)
        def f(x):
            a = x.sin()
            b = a + 0
            a.mul_(100)
            x.add_(1)
            return a + b

        f(torch.full((3,), 0.5))
    """
    answer = survey(child, script(home, text, "in_place.py"))
    assert answer.held is not None
    program = answer.program("dynamo")
    sine, _, scaled, shifted, last = (node.name for node in program.nodes)
    assert program.nodes[2].target == ".mul_"
    (given,) = (i.golden for i in program.inputs)
    assert given is not None
    keys = frozenset([sine, f"{sine}@{scaled}", f"{sine}@{last}", given, f"{given}@{shifted}", f"{given}@{last}"])
    values = torch.load(answer.golden(keys), weights_only=True)
    plain = torch.full((3,), 0.5)
    expected = {
        sine: plain.sin(),
        f"{sine}@{scaled}": plain.sin(),
        f"{sine}@{last}": plain.sin() * 100,
        given: plain,
        f"{given}@{shifted}": plain,
        f"{given}@{last}": plain + 1,
    }
    assert set(values) == keys
    for key, value in expected.items():
        torch.testing.assert_close(values[key], value, rtol=0, atol=1e-5)
    assert answer.literal(given) == "torch.tensor([0.5, 0.5, 0.5])"
    answer.close()


def test_trap_07_the_callers_inputs_are_as_eager_leaves_them(child: Executor, home: Path) -> None:
    """Comparing runs the graph more than once; the script's own tensor is changed once."""
    text = """
        import torch

        @torch.compile(backend="aot_eager")
        def f(x):
            x.mul_(2)
            return x + 1

        x = torch.ones(3)
        for _ in range(3):
            f(x)
        raise SystemExit(f"x is {x.tolist()}")
    """
    answer = survey(child, script(home, text, "callers.py")).finished
    assert answer is not None
    assert answer.exception is not None
    assert answer.exception.message == "x is [8.0, 8.0, 8.0]"


STATIC_ONLY = """
def static_only(gm, example):
    if any(isinstance(x, torch.SymInt) for x in example):
        raise NotImplementedError("a size that changes")
    return gm.forward
"""


def test_trap_10_a_dynamic_failure_is_not_judged_static(child: Executor, home: Path) -> None:
    """It shows with ``dynamic=True`` and with the marks of the captured graph, and with neither it does not."""
    call = "torch.compile(lambda x: x.sin() + 1, backend=static_only, dynamic=True)(torch.randn(15, 19))"
    found = survey(child, script(home, f"import torch\n{STATIC_ONLY}\n{call}"))
    assert found.held is not None
    assert found.held.failure.kind == "compile_error"
    program = found.program("dynamo")
    program = replace(program, setup=(*program.setup, STATIC_ONLY))
    backend = ("backend", "static_only")
    assert set(program.compile_kwargs) == {backend, ("dynamic", "True")}
    marked = replace(program, compile_kwargs=(backend,), marked=True)
    signature = exception_signature(Kind.COMPILE_ERROR, found.held.failure.exception)
    oracle = Oracle(child, found, (signature,))
    assert oracle.check([program, marked, static(program)]) == [True, True, False]
    found.close()


def test_trap_11_state_and_constants_are_written_as_source(child: Executor, home: Path) -> None:
    text = """
        import torch

        torch.set_default_dtype(torch.float64)
        torch.set_float32_matmul_precision("medium")
        torch.use_deterministic_algorithms(True, warn_only=True)

        def wrong(gm, example):
            return lambda *args: [torch.zeros_like(out) for out in gm(*args)]

        def f(x, flag):
            with torch.autocast("cpu", dtype=torch.bfloat16):
                y = x @ x
            y = torch.where(flag, y, float("nan"))
            return torch.cond(flag, lambda y: (y * float("inf"),), lambda y: (y - 1,), (y,))[0]

        with torch.inference_mode():
            torch.compile(f, backend=wrong)(torch.ones(2, 2), torch.tensor(True))
    """
    found = survey(child, script(home, text))
    assert found.held is not None, found.finished
    program = replace(found.program("dynamo"), compile_kwargs=(("backend", "'aot_eager'"),))
    assert program.level == "dynamo"
    assert {
        "torch.set_default_dtype(torch.float64)",
        'torch.set_float32_matmul_precision("medium")',
        "torch.use_deterministic_algorithms(True, warn_only=True)",
        "inference = torch.inference_mode(); inference.__enter__()",
    } <= set(program.setup)
    text = render.function(program)
    assert 'float("nan")' in text
    assert "torch.bfloat16" in text
    (outcome,) = Oracle(child, found, ()).judge([program])
    assert outcome.ending == "same", outcome
    found.close()
