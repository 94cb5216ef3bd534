"""Writes scripts for a call that fails only because the compiler loads its code from a cache.

Such a call is right in every run that compiles it, so no trial of its graph shows the failure. Two types of scripts
may: one with earlier calls on other numbers, since a cache key that lacks a number finds the code of another call; and
one that makes the same call twice, since a stored artifact may differ from the code that was compiled. Both need caches
that are empty at first.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Callable, Iterator, Mapping, Sequence, Set

from minimizer.engine.child.protocol import MadeCall
from minimizer.engine.levels.call_sequence import check, values_of, written
from minimizer.engine.program.model import Input, Node, Program, TensorMeta
from minimizer.engine.program.regions import Cutter, split

OFF = "torch._inductor.config.fx_graph_cache = False\ntorch._functorch.config.enable_autograd_cache = False"
TOLERANCE = "rtol=0.01, atol=0.01"
"""Loose, since the code of another call is further off, and freshly drawn inputs may lose more to rounding than the
script's.
"""
EARLIER = 2
"""Calls with other numbers before the failing one: Dynamo specializes on a number first, and then makes it dynamic."""
STEP = 2
"""The difference between the numbers of two successive calls."""


def as_scripts(program: Program, call: MadeCall) -> Iterator[tuple[str, Program]]:
    """Scripts that may show the failure of a call, each with the part of the graph that it calls, smallest first.

    The parts of a graph with number inputs are the operations that take a number, with the nodes that produce it. None
    if an input has no source text.
    """
    known = dict(zip((i.name for i in program.inputs), values_of(program.inputs, call), strict=True))
    numbers = {name for name, value in known.items() if value is not None and _number(value) is not None}
    nodes, cutter = program.nodes, Cutter(program)
    parts = _taking(nodes, numbers) if numbers else [(r.start, r.stop) for r in split(nodes, 0, len(nodes))]
    smaller = [ends for ends in parts if ends != (0, len(nodes))]
    for part in [*(cutter.cut(*ends) for ends in smaller), program]:
        for text in _of_part(part, call, known):
            yield text, part


def _taking(nodes: Sequence[Node], inputs: Set[str]) -> list[tuple[int, int]]:
    """The windows that end in a node that takes one of these inputs, or a number computed from them; first per
    operation.

    Each begins at the first node that produces its numbers, or an operand from another such node.
    """
    numbers = inputs | {node.name for node in nodes if node.number is not None}
    first: dict[str, int] = {}
    """Start of the window of each node that produces or takes a number."""
    windows: dict[str, tuple[int, int]] = {}
    for at, node in enumerate(nodes):
        refs = {*node.refs()}
        if node.number is None and not numbers & refs:
            continue
        first[node.name] = min([at, *(first[ref] for ref in refs if ref in first)])
        if node.number is None and node.target not in windows:
            windows[node.target] = (first[node.name], at + 1)
    return sorted(windows.values(), key=lambda window: window[1] - window[0])


def _of_part(part: Program, call: MadeCall, known: Mapping[str, str | None]) -> Iterator[str]:
    """Scripts of a part, with random intermediate inputs; if there are such inputs, also with evenly spaced ones."""
    ways = (_drawn, _spread) if any(i.name not in known for i in part.inputs) else (_drawn,)
    for way in ways:
        values = [known[i.name] if i.name in known else _made_up(i, part, way) for i in part.inputs]
        texts = [value for value in values if value is not None]
        is_compiled = any(_number(text) is None for text in texts)  # without a tensor argument nothing is compiled
        if len(texts) < len(values) or not is_compiled:
            return
        yield from _with_values(part, call, texts)


def _with_values(part: Program, call: MadeCall, texts: list[str]) -> Iterator[str]:
    program = part.as_compiled().renamed()
    backward = ".sum().backward()" if program.grad and any("requires_grad_" in text for text in texts) else ""
    differing = [_other_numbers(texts, distance) for distance in range(EARLIER, 0, -1)]
    if differing[0] != texts:
        yield _script(program, call, texts, [_earlier(call, other, program, backward) for other in differing])
    yield _script(program, call, texts, [_earlier(call, texts, program, backward), "torch._dynamo.reset()"])


def _made_up(item: Input, program: Program, way: Callable[[TensorMeta, str], str]) -> str | None:
    """An expression for an intermediate value of the graph; None unless it is a floating-point tensor."""
    meta = item.meta
    if meta is None or not meta.dtype.startswith(("torch.float", "torch.bfloat")):
        return None
    dtype = f", dtype={meta.dtype}" if meta.dtype != "torch.float32" else ""
    device = f", device={meta.device!r}" if meta.device != "cpu" else ""
    return way(meta, dtype + device) + (".requires_grad_()" if program.grad else "")


def _spread(meta: TensorMeta, options: str) -> str:
    """Values beyond the range that random draws usually reach, on both sides of zero."""
    return f"torch.linspace(-9, 9, {math.prod(meta.shape)}{options}).reshape({meta.shape})"


def _drawn(meta: TensorMeta, options: str) -> str:
    """Values of the usual size.

    Both sides draw them from one seed, in a function that the reduction cannot make different.
    """
    return f"torch.randn({meta.shape}{options})"


def without_caches(text: str) -> str:
    """The same script with the caches off. If it still fails, the caches are not the cause."""
    return text.replace("import torch\n", f"import torch\n{OFF}\n", 1)


def _script(program: Program, call: MadeCall, values: list[str], earlier: list[str]) -> str:
    return written(program, values, [*earlier, *check(program, call, ", ".join(values), values, TOLERANCE)])


def _earlier(call: MadeCall, values: list[str], program: Program, backward: str) -> str:
    """An earlier call, with its backward: AOTAutograd stores its artifact once the backward is compiled too."""
    made = f"compiled({', '.join(values)})"
    if backward:
        made += f"[{_with_gradient(program)}]{backward}" if len(program.outputs) > 1 else backward
    return "\n".join([*call.statements, made])


def _with_gradient(program: Program) -> int:
    """The index of the first output that has a gradient."""
    has = {node.name for node in program.nodes if node.meta is not None and node.meta.requires_grad}
    return next((index for index, name in enumerate(program.outputs) if name in has), 0)


def _other_numbers(values: list[str], distance: int) -> list[str]:
    """The same values with every plain number shifted."""
    return [repr(number + STEP * distance) if (number := _number(value)) is not None else value for value in values]


def _number(value: str) -> int | float | None:
    try:
        number = ast.literal_eval(value)
    except (SyntaxError, ValueError):
        return None
    return number if type(number) in (int, float) else None
