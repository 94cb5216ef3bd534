"""Programs for tests of the search, and what must hold of each program that the search makes."""

from __future__ import annotations

from collections.abc import Sequence

from minimizer.engine.program.arguments import Ref
from minimizer.engine.program.model import Input, Node, Program, TensorMeta

META = TensorMeta((8, 8), "torch.float32", (8, 1))


def well_formed(program: Program) -> None:
    """Assert that names are unique and defined before use, every output exists, and every input has one value."""
    names = [v.name for v in (*program.inputs, *program.nodes)]  # type: ignore[attr-defined]
    assert len(names) == len(set(names))
    defined = {i.name for i in program.inputs}
    for node in program.nodes:
        assert defined.issuperset(node.refs()), f"{node} uses what is not there"
        defined.add(node.name)
    assert defined.issuperset(program.outputs)
    assert all((i.golden is None) != (i.code is None) for i in program.inputs)


def tidy(program: Program) -> None:
    """Assert that there is a node, that every input is used, and that no output is given twice."""
    assert program.nodes
    assert len(program.outputs) == len(set(program.outputs))
    used = set(program.outputs).union(*(node.refs() for node in program.nodes))
    assert used.issuperset(i.name for i in program.inputs)


def chain(targets: Sequence[str], *, meta: TensorMeta = META) -> Program:
    """``v0 = targets[0](x); v1 = targets[1](v0); ...``"""
    nodes = []
    previous = "x"
    for index, target in enumerate(targets):
        nodes.append(Node(f"v{index}", target, (Ref(previous),), meta=meta))
        previous = f"v{index}"
    return Program(inputs=(Input("x", meta, golden="x"),), nodes=tuple(nodes), outputs=(previous,))
