"""Graphs made by hand, that name a module for each node."""

from __future__ import annotations

from collections.abc import Sequence

from toy_programs import META

from minimizer.engine.program.arguments import Ref
from minimizer.engine.program.model import Input, Node, Program


def chain(nodes: Sequence[tuple[str, str]]) -> Program:
    """``v0 = target0(x); v1 = target1(v0); ...``, from pairs of target and module."""
    made = []
    previous = "x"
    for index, (target, module) in enumerate(nodes):
        kind = module.rpartition(".")[2].title()
        made.append(Node(f"v{index}", target, (Ref(previous),), meta=META, module=module, module_class=kind))
        previous = f"v{index}"
    return Program((Input("x", META, golden="x"),), tuple(made), (previous,))


def model(blocks: int = 6, bad: dict[int, str] | None = None) -> Program:
    """Blocks of five nodes in ``norm`` and six in ``mlp``; in a bad one the third node of the mlp is another target."""
    nodes = [("torch.embed", "embedding")]
    for block in range(blocks):
        nodes += [("torch.norm", f"blocks.{block}.norm")] * 5
        mlp = [("torch.linear", f"blocks.{block}.mlp")] * 6
        if bad and block in bad:
            mlp[2] = (bad[block], f"blocks.{block}.mlp.activation")
        nodes += mlp
    return chain([*nodes, ("torch.head", "head")])
