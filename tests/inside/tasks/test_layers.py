"""The table of layers, made by the real child with backends that are wrong in one place, on purpose."""

from __future__ import annotations

from typing import Any

import pytest
from children import SECONDS

from minimizer.engine.child.executor import Executor
from minimizer.engine.child.protocol import Phase
from minimizer.engine.child.survey import Survey
from minimizer.engine.measure.layer_table import Table, neighbourhood, tabulate
from minimizer.engine.oracle.oracle import Oracle
from minimizer.engine.oracle.signature import Signature
from minimizer.engine.program.arguments import Ref
from minimizer.engine.program.model import Input, Node, Program, TensorMeta
from minimizer.vocabulary import Kind

META = TensorMeta((4,), "torch.float32", (1,))
TRIPLE = TensorMeta((3,), "torch.float32", (1,))
Layers = tuple[tuple[str, str], ...]
LAYERS: Layers = (("a", "torch.sin"), ("b", "torch.relu"), ("c", "torch.cos"), ("d", "torch.relu"))
BACKEND = """
import os
def backend(gm, example):
    targets = [str(node.target) for node in gm.graph.nodes]
    with open("compiled.txt", "a") as file:
        file.write(f"{sum(n.op.startswith('call') for n in gm.graph.nodes)}\\n")
    def run(*args):
        return WRONG
    return run
"""
RELU = "any('relu' in t for t in targets)"
HALVED = f"[v * 0.5 if {RELU} else v for v in gm(*args)]"


def program(wrong: str, *, layers: Layers = LAYERS, setup: str = "", grad: bool = False) -> Program:
    """``a`` to ``d`` one after another, compiled by a backend that answers ``wrong``."""
    meta = TensorMeta((4,), "torch.float32", (1,), requires_grad=grad)
    nodes, before = [], "x"
    for path, target in layers:
        nodes.append(Node(path, target, (Ref(before),), meta=META, module=path, module_class=target.rpartition(".")[2]))
        before = path
    return Program(
        (Input("x", meta, code="torch.tensor([0.5, 1.0, 1.5, 2.0])"),),
        tuple(nodes),
        ("d",),
        setup=(BACKEND.replace("WRONG", wrong) + setup,),
        compile_kwargs=(("backend", "backend"),),
        grad=grad,
    )


def oracle(child: Executor) -> Oracle:
    # No golden value is ever asked for: every input is made by its own code.
    return Oracle(child, Survey(child, None, phase=Phase()), (Signature(Kind.WRONG_OUTPUT),))  # type: ignore[arg-type]


def table(child: Executor, wrong: str, **changes: Any) -> Table:
    (child.place.folder("work") / "compiled.txt").unlink(missing_ok=True)
    found = tabulate(program(wrong, **changes), oracle(child), seconds=SECONDS)
    assert found is not None
    return found


def test_roots_are_told_from_what_follows_and_equal_layers_are_compiled_once(child: Executor) -> None:
    found = table(child, HALVED)
    rows = found.layers()
    assert [(row.path, row.cls, row.order) for row in rows] == [
        ("a", "sin", 0),
        ("b", "relu", 1),
        ("c", "cos", 2),
        ("d", "relu", 3),
    ]
    assert found.observed is True
    assert [row.verdict for row in rows] == ["propagated", "bad", "propagated", "bad"]
    sizes = (child.place.folder("work") / "compiled.txt").read_text().split()
    assert sizes == ["1", "1", "1", "4"]  # sin, relu, cos, and the whole


def test_figures_of_a_layer(child: Executor) -> None:
    rows = table(child, HALVED).layers()
    good, bad = rows[0], rows[1]
    assert (good.local_error, good.required_atol, good.cosine) == (0.0, 0.0, pytest.approx(1.0))
    assert bad.local_error == pytest.approx(0.9975 / 2, rel=1e-3)  # half of sin(1.5)
    assert bad.compiled_vs_fp64 == pytest.approx(0.5, rel=1e-3)
    assert bad.eager_vs_fp64 is not None and bad.eager_vs_fp64 < 1e-6
    assert bad.cosine == pytest.approx(1.0)
    assert bad.required_rtol == pytest.approx(0.5, rel=1e-3)


def test_a_layer_that_kills_its_process_is_bad_and_the_others_are_judged(child: Executor) -> None:
    rows = table(child, "os.abort() if targets[1].find('cos') > 0 else gm(*args)").layers()
    assert [row.verdict for row in rows] == ["good", "good", "bad", "good"]
    assert rows[2].local_error is None


def test_a_layer_that_loses_the_gpu_is_bad_and_the_others_are_judged_in_another_process(child: Executor) -> None:
    setup = "def lost():\n    raise RuntimeError('CUDA error: an illegal memory access was encountered')\n"
    rows = table(child, "lost() if targets[1].find('cos') > 0 else gm(*args)", setup=setup).layers()
    assert [row.verdict for row in rows] == ["good", "good", "bad", "good"]


def test_a_failure_that_observing_hides_is_said_to_be_hidden(child: Executor) -> None:
    found = table(child, f"[v * 0.5 for v in gm(*args)] if {RELU} and len(gm(*args)) == 1 else gm(*args)")
    assert found.observed is False
    assert [row.verdict for row in found.layers()] == ["good", "bad", "good", "bad"]


def test_the_first_nan_is_placed(child: Executor) -> None:
    rows = table(child, f"[v / (v * 0) if {RELU} else v for v in gm(*args)]").layers()
    assert rows[1].nonfinite is not None
    assert (rows[1].nonfinite.side, rows[1].nonfinite.what, rows[1].nonfinite.index) == ("compiled", "inf", [0])
    assert rows[1].verdict == "bad"


def test_gradients_have_rows_of_their_own_in_the_order_of_the_backward(child: Executor) -> None:
    wrong = f"[2 * v - v.detach() if {RELU} else v for v in gm(*args)]"  # the same value, twice the gradient
    rows = table(child, wrong, grad=True).layers()
    forward, backward = rows[:4], rows[4:]
    assert [row.verdict for row in forward] == ["good"] * 4
    assert [(row.path, row.phase, row.order) for row in backward] == [
        ("d", "backward", 4),
        ("c", "backward", 5),
        ("b", "backward", 6),
        ("a", "backward", 7),
    ]
    assert [row.verdict for row in backward] == ["bad", "good", "bad", "propagated"]
    assert backward[3].propagated_error is not None and backward[3].propagated_error > 0


DRAWN_ALIKE = "import torch._inductor.config\ntorch._inductor.config.fallback_random = True\n"


def test_gradients_behind_random_numbers_that_both_sides_share_are_judged(child: Executor) -> None:
    wrong = f"[2 * v - v.detach() if {RELU} else v for v in gm(*args)]"
    layers = (*LAYERS[:2], ("c", "torch.nn.functional.dropout"), LAYERS[3])
    rows = table(child, wrong, layers=layers, setup=DRAWN_ALIKE, grad=True).layers()
    assert [row.verdict for row in rows[4:]] == ["bad", "good", "bad", "propagated"]


def test_switches_that_a_layer_leaves_on_count_on_neither_of_its_sides(child: Executor) -> None:
    setup = """
def matmul(x):
    y = (x.reshape(2, 2) @ x.reshape(2, 2)).reshape(4)
    torch.set_autocast_enabled("cpu", True)
    return y
def normal(x):
    torch.set_autocast_enabled("cpu", False)
    return x.cos()
"""
    layers = (LAYERS[0], ("b", "matmul"), ("c", "normal"), LAYERS[3])
    found = table(child, "gm(*args)", layers=layers, setup=setup)
    assert [row.verdict for row in found.layers()] == ["good"] * 4


def test_the_graph_around_the_culprit(child: Executor) -> None:
    nodes = neighbourhood(program(HALVED), ["b"], oracle(child), seconds=SECONDS)
    assert [(node.name, node.op, node.inputs, node.culprit) for node in nodes] == [
        ("a", "torch.sin", [], False),
        ("b", "torch.relu", ["a"], True),
        ("c", "torch.cos", ["b"], False),
        ("d", "torch.relu", ["c"], False),
    ]
    assert nodes[1].verdict == "bad" and nodes[1].shape == "float32[4]"


BRITTLE = """
class _Brittle:
    def __call__(self, x):
        if torch.compiler.is_compiling():
            return x.relu()
        raise ValueError("raised in eager only")
brittle = _Brittle()
def broken(x):
    raise ValueError("raised on both sides")
"""


def test_an_error_that_is_missing_is_that_of_the_layer_that_raises_in_eager(child: Executor) -> None:
    layers = (LAYERS[0], ("b", "brittle"), *LAYERS[2:])
    found = table(child, "gm(*args)", layers=layers, setup=BRITTLE)
    assert [row.verdict for row in found.layers()] == ["good", "bad", "unknown", "unknown"]
    assert found.rows[1].found["local"].ending == "missing_error"
    assert found.observed is None


def test_a_layer_that_raises_on_both_sides_is_not_judged(child: Executor) -> None:
    layers = (LAYERS[0], ("b", "broken"), *LAYERS[2:])
    found = table(child, "gm(*args)", layers=layers, setup=BRITTLE)
    assert [row.verdict for row in found.layers()] == ["good", "unknown", "unknown", "unknown"]


def test_a_layer_whose_backward_raises_in_eager_is_not_judged(child: Executor) -> None:
    setup = """
runs = []
def once(grad):
    runs.append(1)
    if len(runs) > 1:
        raise ValueError("raised in eager only")
def brittle(x):
    y = x.relu()
    if not torch.compiler.is_compiling():
        y.register_hook(once)
    return y
"""
    layers = (LAYERS[0], ("b", "brittle"), *LAYERS[2:])
    found = table(child, "gm(*args)", layers=layers, setup=setup, grad=True)
    assert found.rows[1].found["local backward"].ending == "eager_error"
    assert [row.verdict for row in found.layers()] == [*["good"] * 6, "unknown", "good"]


def test_numbers_that_the_graph_returns_shift_no_error_to_another_layer(child: Executor) -> None:
    """``d`` alone is wrong, and differs from the others in its shape."""
    setup = """
def size(x):
    return x.shape[0]
def cut(x):
    return x[:3].relu()
"""
    chain = program(f"[v * 0.5 if {RELU} else v for v in gm(*args)]", layers=LAYERS[:1], setup=setup)
    nodes = (
        *chain.nodes,
        Node("n", "size", (Ref("a"),), module="n"),
        Node("c", "torch.cos", (Ref("a"),), meta=META, module="c"),
        Node("d", "cut", (Ref("c"),), meta=TRIPLE, module="d"),
    )
    whole = "[v * 0.5 if getattr(v, 'shape', ()) == (3,) else v for v in gm(*args)]"
    numbered = Program(
        chain.inputs, nodes, ("n", "d"), setup=(BACKEND.replace("WRONG", whole) + setup,), compile_kwargs=chain.compile_kwargs
    )  # fmt: skip
    found = tabulate(numbered, oracle(child), seconds=SECONDS)
    assert found is not None
    assert [(row.path, row.propagated_error) for row in found.layers() if row.path != "n"] == [
        ("a", 0.0),
        ("c", 0.0),
        ("d", pytest.approx(0.8867 / 2, rel=1e-3)),
    ]
