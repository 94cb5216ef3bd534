"""Renders a program as plain Python source, as a person would write it, without importing torch.

Trials compile this text, and ``repro.py`` is written from it, so that both run the same calls.
"""

from __future__ import annotations

import cmath
import math
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import chain

from minimizer.engine.program.arguments import Arg, Code, Ref
from minimizer.engine.program.model import HIGHER_ORDER, LAUNCH, Body, Node, Program

INFIX = {
    "add": "+", "sub": "-", "mul": "*", "truediv": "/", "floordiv": "//", "mod": "%", "pow": "**", "matmul": "@",
    "and_": "&", "or_": "|", "xor": "^", "lshift": "<<", "rshift": ">>",
    "eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">=", "is_": "is", "is_not": "is not",
}  # fmt: skip
IN_PLACE = {
    "iadd": "+=", "isub": "-=", "imul": "*=", "itruediv": "/=", "ifloordiv": "//=", "imod": "%=", "ipow": "**=",
    "imatmul": "@=", "iand": "&=", "ior": "|=", "ixor": "^=", "ilshift": "<<=", "irshift": ">>=",
}  # fmt: skip
FUTURE = "from __future__ import"
SCAN = f"{HIGHER_ORDER}scan"
"""The operator whose body has to be a module when Dynamo traces it; in a graph it is one."""
PREFIX = {"neg": "-", "pos": "+", "invert": "~", "inv": "~"}


def function(program: Program, name: str = "f") -> str:
    """The program as one function, with one statement for each node."""
    lines = [statement(node) for node in program.nodes]
    if program.outputs:
        lines.append(f"return {', '.join(program.outputs)}")
    body = "\n".join(lines) or "pass"
    return f"def {name}({', '.join(i.name for i in program.inputs)}):\n{textwrap.indent(body, '    ')}\n"


def reading_constants(program: Program, function: str, constants: str) -> str:
    """A function of all inputs that calls ``function`` with the frozen ones taken from the module ``constants``."""
    given = ", ".join(item.name for item in program.inputs)
    read = ", ".join(f"{constants}.{item.name}" if item.frozen else item.name for item in program.inputs)
    return f"lambda {given}: {function}({read})"


def setup(program: Program) -> tuple[str, ...]:
    """The statements before the function: the bodies of its higher-order operators, then its own setup."""
    # Functions first: settings, which another version of torch may reject, have to follow the last definition.
    return (*(line for body in program.called for line in _body(body, program)), *program.setup)


def behind(header: str, statements: Sequence[str]) -> str:
    """Statements after a header of imports; their imports from ``__future__`` come before it."""
    first = [statement for statement in statements if statement.startswith(FUTURE)]
    return "\n".join([*first, header, *(statement for statement in statements if statement not in first)])


def _body(body: Body, program: Program) -> Iterator[str]:
    lines = [*map(statement, body.nodes), f"return {arg(body.result)}"]
    yield f"def {body.name}({', '.join(body.parameters)}):\n" + textwrap.indent("\n".join(lines), "    ")
    callers = chain(program.nodes, *(one.nodes for one in program.called))
    is_of_scan = any(node.target == SCAN and Code(body.name) in node.leaves() for node in callers)
    # A call without a tensor would be executed only once, when its module is created.
    if is_of_scan and all(any(isinstance(leaf, Ref) for leaf in node.leaves()) for node in body.nodes):
        yield f"{body.name} = torch.fx.symbolic_trace({body.name})"


def statement(node: Node) -> str:
    """One node as a statement that binds its name; a node without a value is an expression statement."""
    if node.target == "operator.setitem":
        target, index, value = node.args
        return f"{operand(target)}[{subscript(index)}] = {arg(value)}"
    if node.target == "operator.delitem":
        return f"del {operand(node.args[0])}[{subscript(node.args[1])}]"
    operator = IN_PLACE.get(node.target.removeprefix("operator."))
    if operator and node.target.startswith("operator.") and isinstance(node.args[0], Ref):
        # `x += y` rebinds x; later nodes use the node's own name, so that is bound too.
        return f"{arg(node.args[0])} {operator} {arg(node.args[1])}; {node.name} = {arg(node.args[0])}"
    return f"{node.name} = {expression(node)}"


def expression(node: Node) -> str:
    """The call: infix for operators, a method or attribute if the graph has one, else a call by dotted name."""
    package, _, short = node.target.rpartition(".")
    if package == "operator" and not node.kwargs:
        if short in INFIX and len(node.args) == 2:
            return f"{operand(node.args[0])} {INFIX[short]} {operand(node.args[1])}"
        if short in PREFIX and len(node.args) == 1:
            return f"{PREFIX[short]}{operand(node.args[0])}"
        if short == "getitem":
            return f"{operand(node.args[0])}[{subscript(node.args[1])}]"
    if node.target == "getattr" and len(node.args) == 2 and isinstance(node.args[1], str):
        return f"{operand(node.args[0])}.{node.args[1]}"
    if node.target == LAUNCH:
        kernel, *rest = node.args
        return f"{arg(kernel)}({call_args(replace(node, args=tuple(rest)))})"
    if node.target.startswith("."):
        first, *rest = node.args
        return f"{operand(first)}{node.target}({call_args(replace(node, args=tuple(rest)))})"
    return f"{node.target}({call_args(node)})"


def call_args(node: Node) -> str:
    """The arguments of a call, as written between its parentheses."""
    return ", ".join([*map(arg, node.args), *(f"{key}={arg(value)}" for key, value in node.kwargs)])


def operand(value: Arg) -> str:
    """An argument where an operator binds: names and plain literals bare, everything else in parentheses."""
    text = arg(value)
    bare = isinstance(value, Ref | str | tuple | list) or (isinstance(value, int | float) and not text.startswith("-"))
    return text if (bare and not text[0].isdigit()) or (bare and isinstance(value, int | float)) else f"({text})"


def subscript(index: Arg) -> str:
    """The index of ``x[...]``, as written between the brackets."""
    if isinstance(index, tuple) and index:
        return ", ".join(_subscript_item(item) for item in index) + ("," if len(index) == 1 else "")
    return _subscript_item(index)


def arg(value: Arg) -> str:
    """A node argument as source text; NaN and infinities become calls of ``float``, since they have no literal."""
    if isinstance(value, Ref):
        return value.name
    if isinstance(value, Code):
        return value.text
    if isinstance(value, tuple):
        return f"({', '.join(map(arg, value))}{',' if len(value) == 1 else ''})"
    if isinstance(value, list):
        return f"[{', '.join(map(arg, value))}]"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{arg(k)}: {arg(v)}" for k, v in value.items()) + "}"
    if isinstance(value, slice):
        return f"slice({arg(value.start)}, {arg(value.stop)}, {arg(value.step)})"
    if isinstance(value, float) and not math.isfinite(value):
        return f'float("{value}")'
    if isinstance(value, complex) and not (cmath.isfinite(value) and _plain_zeros(value)):
        return f"complex({arg(value.real)}, {arg(value.imag)})"
    return repr(value)


def _plain_zeros(value: complex) -> bool:
    """Whether Python's notation keeps the signs of zeros: ``-1j`` has a real part of -0.0, and ``1-0j`` loses it."""
    if value.real == 0 and value.imag < 0:
        return False
    return all(part != 0 or math.copysign(1, part) == 1 for part in (value.real, value.imag))


def _subscript_item(item: Arg) -> str:
    if isinstance(item, slice):
        parts = ["" if part is None else arg(part) for part in (item.start, item.stop, item.step)]
        return ":".join(parts if parts[2] else parts[:2])
    return "..." if isinstance(item, Code) and item.text in ("...", "Ellipsis") else arg(item)
