"""The pass for fewer dimensions: drops the leading one everywhere, alone or together with one node.

Pattern matchers know some patterns in one rank only, so that the rank and a node may have to go at once: an attention
with a scale in four dimensions, one without it in three.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from minimizer.engine.program.arguments import Arg
from minimizer.engine.program.model import Node, Program
from minimizer.engine.reduce.graph import cut
from minimizer.engine.reduce.graph.passes.shapes import without_leading
from minimizer.engine.reduce.graph.program_problem import ProgramProblem

FEW_NODES = 8
"""Most nodes of a program for which each is tried together with the dimension, which costs one trial per node."""
DIM_KEYWORDS = {"dim", "dims", "dim0", "dim1", "axis", "start_dim", "end_dim"}
DIM_POSITIONS = {
    "transpose": (1, 2), "swapaxes": (1, 2), "movedim": (1, 2), "flatten": (1, 2), "diagonal": (2, 3),
    **dict.fromkeys(
        ("softmax", "log_softmax", "sum", "mean", "amax", "amin", "max", "min", "argmax", "argmin", "prod", "var", "std", "norm",
         "cumsum", "cumprod", "logsumexp", "all", "any", "unsqueeze", "squeeze", "select", "narrow", "flip", "sort", "argsort",
         "cat", "stack", "gather", "scatter", "index_select", "unbind", "unflatten", "roll"),
        (1,),
    ),
    **dict.fromkeys(("split", "chunk", "topk", "tensor_split", "repeat_interleave"), (2,)),
}  # fmt: skip
"""Positions of the arguments that are dimensions, by function; the first argument has position 0."""
TAKES_SHAPE = {"view", "reshape", "expand", "repeat", "broadcast_to", "full", "zeros", "ones", "rand", "randn", "empty"}


def dimensions(problem: ProgramProblem) -> None:
    """Drop leading dimensions.

    Invariant: when nothing changes, no leading dimension could go, neither alone nor with any one of few nodes.
    """
    problem.exhaust(_fewer, "dimensions")


def _fewer(program: Program) -> Iterator[Program | None]:
    flat = without_dimension(program)
    if flat is None:
        return
    spellings = [flat, _with_bmm(flat)]
    yield from spellings
    if len(program.nodes) <= FEW_NODES:
        for node in program.nodes:
            for spelling in spellings:
                yield spelling and cut.bypass(spelling, [node.name])


def without_dimension(program: Program) -> Program | None:
    """The program without the leading dimension of the inputs of highest rank, with dimension arguments adapted."""
    flat = without_leading(program)
    if flat is None or flat.inputs == program.inputs:
        return None
    return replace(flat, nodes=tuple(map(_shifted, flat.nodes)))


def _with_bmm(program: Program) -> Program | None:
    """The program with ``bmm`` for every three-dimensional matmul: pattern matchers tell them apart."""
    ranks = {len(item.meta.shape) for item in program.inputs if item.meta}
    if ranks != {3} or not any(_is_matmul(node) for node in program.nodes):
        return None
    nodes = tuple(replace(node, target="torch.bmm") if _is_matmul(node) else node for node in program.nodes)
    return replace(program, nodes=nodes)


def _is_matmul(node: Node) -> bool:
    return node.target in ("torch.matmul", "operator.matmul", ".matmul")


def _shifted(node: Node) -> Node:
    name = next((part for part in reversed(node.target.split(".")) if part not in ("default", "int", "dim")), "")
    if name == "permute":
        return replace(node, args=_permuted(node.args))
    if name in TAKES_SHAPE:
        return replace(node, args=_shorter(node.args))
    positions = DIM_POSITIONS.get(name, ())
    args = tuple(_less(arg) if index in positions else arg for index, arg in enumerate(node.args))
    kwargs = tuple((key, _less(value) if key in DIM_KEYWORDS else value) for key, value in node.kwargs)
    return replace(node, args=args, kwargs=kwargs)


def _permuted(args: tuple[Arg, ...]) -> tuple[Arg, ...]:
    """The arguments of a permutation (a tuple or numbers) without dimension 0; unchanged if 0 is not the first."""
    subject, *order = args
    as_one = len(order) == 1 and isinstance(order[0], tuple | list)
    dims = list(order[0]) if as_one else order
    if not all(isinstance(dim, int) for dim in dims) or dims[:1] != [0] or len(dims) < 2:
        return args
    kept = [dim - 1 if dim > 0 else dim for dim in dims[1:]]
    return (subject, tuple(kept)) if as_one else (subject, *kept)


def _shorter(args: tuple[Arg, ...]) -> tuple[Arg, ...]:
    """The arguments without the first size of a shape, given as a tuple or as numbers."""
    for index, arg in enumerate(args):
        if isinstance(arg, tuple | list) and len(arg) > 1:
            return (*args[:index], type(arg)(arg[1:]), *args[index + 1 :])
        if isinstance(arg, int):
            return (*args[:index], *args[index + 1 :])
    return args


def _less(arg: Arg) -> Arg:
    """The dimension minus one; a negative one, counted from the end, stays."""
    if isinstance(arg, tuple | list):
        return type(arg)(_less(item) for item in arg)
    return arg - 1 if isinstance(arg, int) and not isinstance(arg, bool) and arg > 0 else arg
