"""The pass for smaller shapes: shrinks every size, in inputs and in arguments that repeat it.

Only inputs made by a generator can change. After a change the shapes of intermediate values are unknown, so their
metadata is cleared, and no later pass can turn one into an input.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

from minimizer.engine.program.arguments import Arg, map_leaves
from minimizer.engine.program.model import Input, Node, Program
from minimizer.engine.reduce.graph.generators import generator_of
from minimizer.engine.reduce.graph.program_problem import ProgramProblem

Resize = Callable[[int], int]

_TAKES_SIZES = {
    "view", "reshape", "expand", "repeat", "tile", "broadcast_to", "unflatten", "as_strided", "resize_",
    "arange", "full", "zeros", "ones", "empty", "rand", "randn", "eye", "linspace",
    "new_full", "new_zeros", "new_ones", "new_empty", "split", "split_with_sizes", "narrow",
    "layer_norm", "native_layer_norm", "rms_norm", "_unsafe_view", "slice", "interpolate",
}  # fmt: skip


def shapes(problem: ProgramProblem) -> None:
    """Shrink each distinct size wherever it occurs, then leading dimensions, then single dimensions of single inputs.

    Invariant: when nothing changes, no size could be one less everywhere.
    """
    sizes = _sizes(problem.best)
    if max(sizes, default=0) > 4:
        problem.first([resized(problem.best, lambda size: min(size, 4))], "shapes")
    for size in reversed(_sizes(problem.best)):
        _shrink_size(problem, size)
    problem.first([without_leading(problem.best)], "shapes")
    for name, dim in [(i.name, d) for i in problem.best.inputs if i.meta for d in range(len(i.meta.shape))]:
        _shrink_dim(problem, name, dim)


def smaller_sizes(program: Program) -> list[Program]:
    """The programs with one distinct size one less everywhere, and with one dimension of one input one less."""
    candidates = [_exact(program, size, size - 1) for size in _sizes(program)]
    for item in program.inputs:
        for dim, size in enumerate(item.meta.shape if item.meta else ()):
            if size > 1:
                candidates.append(_with_dim(program, item.name, dim, size - 1))
    return [c for c in candidates if c is not None]


def resized(program: Program, resize: Resize, *, arguments: bool = True) -> Program | None:
    """The program with sizes changed in generated inputs and in arguments that are sizes; None if no input changes."""
    inputs = tuple(
        _resized_input(i, tuple(map(resize, i.meta.shape)), program) if i.meta else i for i in program.inputs
    )
    if inputs == program.inputs:
        return None
    if arguments:
        inputs = tuple(_with_steps(i, lambda steps: [_resized_node(step, resize) for step in steps]) for i in inputs)
    nodes = tuple(_resized_node(n, resize) if arguments else n for n in program.nodes)
    return replace(program, inputs=inputs, nodes=tuple(replace(n, meta=None) for n in nodes))


def without_leading(program: Program) -> Program | None:
    """The program without the leading dimension of the inputs of highest rank; None if that is below 2."""
    most = max((len(i.meta.shape) for i in program.inputs if i.meta), default=0)
    if most < 2:
        return None
    inputs = tuple(
        _resized_input(i, i.meta.shape[1:], program) if i.meta and len(i.meta.shape) == most else i
        for i in program.inputs
    )
    highest = {i.name for i in program.inputs if i.meta and len(i.meta.shape) == most}
    inputs = tuple(_with_steps(i, _without_first) if i.view and i.view.of in highest else i for i in inputs)
    return replace(program, inputs=inputs, nodes=tuple(replace(n, meta=None) for n in program.nodes))


def _shrink_size(problem: ProgramProblem, size: int) -> None:
    """Shrink a size to the smallest that still fails: 1 or 2, else by bisection."""

    def variants(to: int) -> list[Program | None]:
        best = problem.best
        return [
            _exact(best, size, to),
            resized(best, _multiples(size, to)),
            resized(best, _only(size, to), arguments=False),
        ]

    for to in (1, 2):
        if to < size and problem.first(_distinct(variants(to)), "shapes"):
            return
    base = problem.best
    problem.largest(0, size - 2, lambda less: _exact(base, size, size - less), "shapes")


def _shrink_dim(problem: ProgramProblem, name: str, dim: int) -> None:
    item = next((i for i in problem.best.inputs if i.name == name), None)
    if item is None or item.meta is None or dim >= len(item.meta.shape) or item.meta.shape[dim] < 2:
        return
    base, size = problem.best, item.meta.shape[dim]
    if not problem.first([_with_dim(base, name, dim, 1)], "shapes"):
        problem.largest(0, size - 1, lambda less: _with_dim(base, name, dim, size - less), "shapes")


def _exact(program: Program, size: int, to: int) -> Program | None:
    return resized(program, _only(size, to))


def _only(size: int, to: int) -> Resize:
    return lambda have: to if have == size else have


def _multiples(size: int, to: int) -> Resize:
    """A change of a size and its multiples: 32 * 64 in a flattening ``view`` follows its factors."""
    return lambda have: have // size * to if have > 0 and have % size == 0 else have


def _distinct(candidates: list[Program | None]) -> list[Program]:
    return list({c.fingerprint(): c for c in candidates if c is not None}.values())


def _sizes(program: Program) -> list[int]:
    """Distinct sizes above one of generated inputs, smallest first."""
    shapes = [i.meta.shape for i in program.inputs if i.meta and generator_of(i)]
    return sorted({size for shape in shapes for size in shape if size > 1})


def _with_dim(program: Program, name: str, dim: int, size: int) -> Program | None:
    def change(item: Input) -> Input:
        if item.name != name or item.meta is None:
            return item
        shape = item.meta.shape
        return _resized_input(item, (*shape[:dim], size, *shape[dim + 1 :]), program)

    inputs = tuple(map(change, program.inputs))
    if inputs == program.inputs:
        return None
    return replace(program, inputs=inputs, nodes=tuple(replace(n, meta=None) for n in program.nodes))


def _resized_input(item: Input, shape: tuple[int, ...], program: Program) -> Input:
    """The input in another shape, from the same generator and with the same order of strides."""
    made_by = generator_of(item)
    if item.meta is None or made_by is None or shape == item.meta.shape:
        return item
    stride = None
    if item.meta.stride is not None and not item.meta.is_contiguous and len(shape) == len(item.meta.shape):
        stride = _dense(shape, item.meta.stride)
    meta = item.meta.reshaped(shape, stride)
    return replace(item, meta=meta, code=made_by.code(meta, grad=program.grad))


def _with_steps(item: Input, change: Callable[[tuple[Node, ...]], Iterable[Node]]) -> Input:
    """The input with other operations that derive it as a view; unchanged if it is no view."""
    if item.view is None:
        return item
    return replace(item, view=replace(item.view, steps=tuple(change(item.view.steps))))


def _without_first(steps: tuple[Node, ...]) -> tuple[Node, ...]:
    """The operations for a base that loses its first dimension: an index over that whole dimension loses it too."""
    first, *rest = steps
    index = first.args[0] if first.target == "operator.getitem" else None
    if not isinstance(index, tuple) or index[0] != slice(None):
        return steps
    left = index[1:]
    return (replace(first, args=(left[0] if len(left) == 1 else left,)), *rest)


def _dense(shape: tuple[int, ...], like: tuple[int, ...]) -> tuple[int, ...]:
    """Strides of a dense tensor with the same order of dimensions in memory as ``like``."""
    stride, step = [0] * len(shape), 1
    for dim in sorted(range(len(shape)), key=lambda d: (like[d], -d)):
        stride[dim] = step
        step *= max(shape[dim], 1)
    return tuple(stride)


def _resized_node(node: Node, resize: Resize) -> Node:
    def leaf(value: Arg) -> Arg:
        return resize(value) if isinstance(value, int) and not isinstance(value, bool) else value

    parts = node.target.split(".")
    if _TAKES_SIZES.intersection(parts[-2:]):
        return node.mapped(leaf)
    if node.target in ("operator.getitem", "operator.setitem"):
        return replace(node, args=tuple(_in_slices(arg, leaf) for arg in node.args))
    return node


def _in_slices(arg: Arg, leaf: Callable[[Arg], Arg]) -> Arg:
    if isinstance(arg, slice):
        return map_leaves(arg, leaf)
    return tuple(_in_slices(item, leaf) for item in arg) if isinstance(arg, tuple) else arg
