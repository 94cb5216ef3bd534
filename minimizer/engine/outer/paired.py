"""Flat scripts that run a slice twice, with the compiler and without, and compare the value at which the two sides
part.

The program is written once, as a function of its graphs::

        torch.testing.assert_close(run(torch.compile(f)), run(f))

`control` changes such a script so that it must pass: a difference that eager's own rounding can cause, or that eager
does not reproduce, is no evidence against the compiler.
"""

from __future__ import annotations

import ast
import hashlib
import re
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from minimizer.engine.outer.flat import DRAWN, WORD, Slice, Writable, import_lines, renamed, text_of
from minimizer.engine.outer.program import BACKWARD, GRAPH
from minimizer.engine.outer.write import (
    INDENT,
    compile_options,
    graph_function,
    setup,
    statements,
    used_graphs,
    used_inputs,
)
from minimizer.engine.program.model import TensorMeta

NAMES = ("run", "program", "both_sides")
"""Names for the function of the program."""
CHECK = "torch.testing.assert_close"
SEED = "torch.manual_seed(0)"
DRAWS = re.compile(r"\btorch\.rand")
FLOATS = re.compile(r"torch\.(b?float16|float32|float64)")
REDRAWN = 3
"""Runs of a control with other roundings: a single one may miss a jump by luck."""
MOST_CALLS = 12
"""Most calls of a guess: one line each, to be removed one by one again."""
REFUSED = "raise AssertionError('the script does not end with a comparison of two sides')\n"
ANEW = """
def compiled_anew(compiled):
    def call(*args):
        torch._dynamo.reset()
        return compiled()(*args)
    return call
"""
ROUNDED = '''
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map


class Rounded(TorchDispatchMode):
    """Rounds each floating result elsewhere, by up to four units in its last place, as a compiler may."""

    def __init__(self, seed):
        super().__init__()
        self.generator = torch.Generator().manual_seed(seed)

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        schema = func._schema
        if any(one.alias_info is not None and not one.alias_info.is_write for one in schema.returns):
            return result
        if schema.is_mutable:  # optimizers' steps return nothing
            given = {**dict(zip((one.name for one in schema.arguments), args)), **(kwargs or {})}
            for one in schema.arguments:
                if one.alias_info is not None and one.alias_info.is_write and one.name in given:
                    tree_map(lambda value: value.copy_(self.rounded(value)) if torch.is_tensor(value) else None, given[one.name])
            return result
        return tree_map(self.rounded, result)

    def rounded(self, value):
        if isinstance(value, torch.Tensor) and value.is_complex():
            parts = torch.view_as_real(value.resolve_conj())
            return torch.empty_like(value).copy_(torch.view_as_complex(self.rounded(parts).contiguous()))
        if not isinstance(value, torch.Tensor) or not value.is_floating_point():
            return value
        moves = torch.rand(value.shape, generator=self.generator, dtype=torch.float64).to(value.device) * 2 - 1
        moved = (value.double() * (1 + 4 * torch.finfo(value.dtype).eps * moves)).to(value.dtype)
        return torch.empty_like(value).copy_(moved)
'''


@dataclass(frozen=True)
class Paired:
    """A slice whose last event creates the differing value.

    ``value``: that value, as an expression. ``drawn``: whether inputs and draws are random numbers instead of ones.
    ``tolerance``: further arguments of ``assert_close``. ``exact``: whether inputs have the script's own numbers if
    these have a short text.
    """

    slice: Slice
    value: str
    drawn: bool
    tolerance: str = ""
    exact: bool = False

    @property
    def size(self) -> int:
        return self.slice.size

    def fingerprint(self) -> str:
        """A hash of the script."""
        return hashlib.sha256(self.text.encode()).hexdigest()

    def without(self, anchors: Sequence[int]) -> Paired:
        """The same without these anchors, except those that other events need."""
        return replace(self, slice=self.slice.without(anchors))

    @cached_property
    def text(self) -> str:
        """The script."""
        program, events = self.slice.source.program, self.slice.events
        inputs = []
        for name in used_inputs(program, events):
            item = program.inputs[name]
            text = (item.drawn or text_of(item)) if self.drawn else text_of(item)
            text = (item.exact or text) if self.exact else text
            inputs.append(f"{name} = {text}{'.requires_grad_()' if item.requires_grad else ''}")
        body = [*inputs, *statements(program, events), f"return {self.value}"]
        body = body if self.drawn else [DRAWN.sub("torch.ones(", line) for line in body]
        return _script(self.slice.source, events, body, self.tolerance)


def calls_alone(source: Writable, event: int, value: str, tolerance: str, *, last: bool = False) -> str | None:
    """A guess for failures that depend on the number of calls only: the calls of a graph up to one, each on its own
    random numbers.

    None if the event is the first such call, no call, or creates another ``value``, if an input's numbers cannot be
    drawn, and for too many calls. ``last``: without the earlier calls, where the sides must agree: a fault of a single
    call belongs to the graph level.
    """
    program, graph = source.program, source.program.graph_of[event]
    calls = [index for index in range(event + 1) if program.graph_of[index] == graph]
    if graph is None or not 1 < len(calls) <= MOST_CALLS or program.events[event].makes != (value,):
        return None
    inputs = [item.code or _random(item.meta) for item in program.graphs[graph].as_compiled().inputs]
    if any(one is None for one in inputs):
        return None
    call = f"{graph}({', '.join(filter(None, inputs))})"
    body = [*([] if last else [call] * (len(calls) - 1)), f"return {call}"]
    if program.events[event].under:
        blocks = [f"{INDENT * depth}with {one}:" for depth, one in enumerate(program.events[event].under)]
        body = [*blocks, *(INDENT * len(blocks) + line for line in body)]
    return _script(source, [event], body, tolerance)


def backwards_alone(source: Writable, event: int, tolerance: str, *, last: bool = False) -> str | None:
    """A guess for failures that depend on the number of backwards only: those up to one, each from the sum of a call of
    the graph.

    None if the event is the first backward, or none, if several graphs are called, or an input's numbers cannot be
    drawn. ``last``: as for `calls_alone`.
    """
    program = source.program
    number = sum(one.kind == BACKWARD for one in program.events[: event + 1])
    graphs = {graph for graph in program.graph_of[:event] if graph is not None}
    if program.events[event].kind != BACKWARD or not 1 < number <= MOST_CALLS or len(graphs) != 1:
        return None
    (graph,) = graphs
    compiled = program.graphs[graph].as_compiled()
    given: list[str] = []
    leaves: list[str] = []
    for item in compiled.inputs:
        text = item.code or _random(item.meta)
        if text is None:
            return None
        if item.meta is not None and item.meta.requires_grad:
            leaves.append(f"leaf_{len(leaves)} = {text}.requires_grad_()")
            text = leaves[-1].partition(" ")[0]
        given.append(text)
    if not leaves or len(compiled.outputs) != 1:
        return None
    names = [leaf.partition(" ")[0] for leaf in leaves]
    backward = f"{graph}({', '.join(given)}).square().sum().backward()"
    sides = ", ".join(f"{name}.grad" for name in names)
    body = [*leaves, *[backward] * (1 if last else number), f"return [{sides}]"]
    return _script(source, [index for index in range(event) if program.graph_of[index]][:1], body, tolerance)


def _random(meta: TensorMeta | None) -> str | None:
    if meta is None or not FLOATS.fullmatch(meta.dtype):
        return None
    dtype = "" if meta.dtype == "torch.float32" else f", dtype={meta.dtype}"
    device = "" if meta.device == "cpu" else f', device="{meta.device}"'
    return f"torch.randn({meta.shape}{dtype}{device})"


def _script(source: Writable, events: Sequence[int], body: Sequence[str], tolerance: str) -> str:
    """The script whose program consists of these statements, which call the graphs of these events."""
    program, names = source.program, source.names
    graphs = used_graphs(program, events)
    functions = (graph_function(program.graphs[name].renamed(), name, decorated=False) for name in graphs)
    above = renamed("\n".join([*setup(program, events), *functions]), names)
    inner = renamed("\n".join(body), names)
    taken = {*WORD.findall(above), *WORD.findall(inner)}
    run = next(name for name in (*NAMES, *(f"run_{number}" for number in range(len(taken) + 1))) if name not in taken)
    eager = [names.get(name, name) for name in graphs]
    options = [compile_options(program.graphs[name].as_compiled()) for name in graphs]
    compiled = [f"torch.compile({', '.join(filter(None, one))})" for one in zip(eager, options, strict=True)]
    sides = f"{run}({', '.join(compiled)}), {run}({', '.join(eager)})"
    check = f"{CHECK}({', '.join(filter(None, [sides, tolerance]))})"
    others = any(one.draws and not DRAWN.search(one.code) for one in map(program.events.__getitem__, events))
    seed = [SEED] if DRAWS.search(inner) or others else []
    function = f"def {run}({', '.join(eager)}):\n" + textwrap.indent("\n".join([*seed, inner]), INDENT)
    return "\n".join([*import_lines("\n".join([above, inner])), above, function, check, ""])


def can_be_paired(slice_: Slice) -> bool:
    """Whether both sides of a slice can draw the same numbers: a drawing compiled graph does not draw eager's."""
    program = slice_.source.program
    return not any(program.events[index].draws and program.events[index].kind == GRAPH for index in slice_.events)


def control(text: str, *, of_sequence: bool = False) -> str:
    """A paired script changed so that it must pass: both sides in eager.

    They must be equal to the bit, and within the script's own tolerance when every rounding of one is redrawn. A script
    whose last statement compares nothing is refused. ``of_sequence``: each call must also be right when it is compiled
    anew: else that call itself is wrong, independent of the earlier ones.
    """
    compiled = _check_of(ast.parse(text).body[-1:])
    tree = _Uncompiled().visit(ast.parse(text))
    call = _check_of(tree.body[-1:])
    if call is None:
        return REFUSED
    one, other = map(ast.unparse, call.args)
    tolerance = [f"{word.arg}={ast.unparse(word.value)}" for word in call.keywords if word.arg is not None]
    before = ast.unparse(ast.Module(tree.body[:-1], type_ignores=[]))
    judged = [
        f"{CHECK}({one}, {other}, rtol=0, atol=0)",
        f"for redrawn in range({REDRAWN}):\n    with Rounded(redrawn):\n        rounded_side = {one}",
        f"    {CHECK}({', '.join(['rounded_side', other, *tolerance])})",
    ]
    if of_sequence and compiled is not None:
        anew = ast.unparse(_CompiledAnew().visit(compiled.args[0]))
        judged += [ANEW, f"{CHECK}({', '.join([anew, other, *tolerance])})"]
    return "\n".join([before, ROUNDED, *judged, ""])


def _check_of(last: Sequence[ast.stmt]) -> ast.Call | None:
    """The comparison in the last statement of a script; None if there is none."""
    call = last[0].value if last and isinstance(last[0], ast.Expr) else None
    is_check = isinstance(call, ast.Call) and ast.unparse(call.func) == CHECK and len(call.args) == 2
    return call if isinstance(call, ast.Call) and is_check else None


class _CompiledAnew(ast.NodeTransformer):
    """Replaces ``torch.compile(...)`` by a function that compiles anew in each call."""

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        is_compiled = ast.unparse(node.func) == "torch.compile"
        return ast.parse(f"compiled_anew(lambda: {ast.unparse(node)})", mode="eval").body if is_compiled else node


class _Uncompiled(ast.NodeTransformer):
    """Replaces ``torch.compile`` of a function by the function."""

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        return node.args[0] if node.args and ast.unparse(node.func) == "torch.compile" else node

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        self.generic_visit(node)
        node.decorator_list = [one for one in node.decorator_list if not ast.unparse(one).startswith("torch.compile")]
        return node
