"""Dynamic shapes in a survey: symbols, and the sizes of the call that fails."""

from __future__ import annotations

from pathlib import Path

from children import script, survey
from surveyed import BACKENDS, targets

from minimizer.engine.child.executor import Executor


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
