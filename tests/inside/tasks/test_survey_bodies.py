"""Graphs with functions in them, as higher-order operators and transforms have them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from children import script, survey
from surveyed import BACKENDS, targets

from minimizer.engine.child import survey as handle
from minimizer.engine.child.executor import Executor
from minimizer.engine.oracle.oracle import Oracle
from minimizer.engine.program import render
from minimizer.engine.program.model import Node
from minimizer.engine.reduce.graph.passes.bodies import opened
from minimizer.engine.reduce.graph.public_names import candidates


def test_the_body_of_a_scan_can_be_traced_again(child: Executor, home: Path) -> None:
    """Dynamo takes a module for it, and refuses a function."""
    text = (
        BACKENDS
        + """
from torch._higher_order_ops.scan import scan

def f(start, rows, keep):
    return scan(lambda state, row: (keep * state + row, state.clone()), start, rows)

with torch.no_grad():
    torch.compile(f, backend=wrong)(torch.zeros(2), torch.ones(3, 2), torch.ones(2))
"""
    )
    found = survey(child, script(home, text))
    assert found.held is not None, found.finished
    program = found.program("dynamo")
    assert render.SCAN in targets(program)
    again = replace(program, compile_kwargs=(("backend", "'aot_eager'"),))
    (outcome,) = Oracle(child, found, ()).judge([again])
    assert outcome.ending == "same", outcome
    found.close()


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


def test_files_of_golden_values_do_not_add_up(child: Executor, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those asked for last stay, and one that is gone is written anew."""
    monkeypatch.setattr(handle, "KEPT_FILES", 2)
    found = survey(
        child, script(home, BACKENDS + "torch.compile(lambda x: x.sin().cos(), backend=wrong)(torch.ones(3))\n")
    )
    program = found.program("dynamo")
    first, second, third = (frozenset([name]) for name in ("l_x_", *(node.name for node in program.nodes)))
    files = [found.golden(keys) for keys in (first, second, first, third)]
    found.trim()
    assert [file.exists() for file in files] == [True, False, True, True]
    assert found.golden(first) == files[0]
    again = found.golden(second)
    assert again not in files and again.exists()
    found.close()


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
    assert [outcome.ending for outcome in outcomes] == ["same", "same"], outcomes
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
@pytest.mark.examples(2)
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
        assert outcome.ending == "same", outcome
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
    assert outcome.ending == "same", outcome
    found.close()


@pytest.mark.parametrize("captured", ["", "score", "mask", "score and mask"])
@pytest.mark.examples(2)
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
            assert outcome.ending == "same", outcome
    found.close()
