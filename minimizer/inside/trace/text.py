"""Source text of a call of torch as a person writes it: infix operators, methods of tensors, else a public dotted name.

A mark with its number represents a tensor in the text, and `with_names` replaces it once all names are known. No
literal can contain a mark: ``repr`` escapes control characters.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

import torch

from ..graph.graphs import defaults_of
from ..graph.literals import Opaque, literal
from ..graph.names import dotted_name

Number = Callable[[Any], str]
"""The mark of a tensor or a generator."""

INFIX = {
    "add": "+", "__add__": "+", "sub": "-", "__sub__": "-", "mul": "*", "__mul__": "*", "div": "/", "true_divide": "/",
    "__truediv__": "/", "floor_divide": "//", "__floordiv__": "//", "remainder": "%", "__mod__": "%", "pow": "**", "__pow__": "**",
    "matmul": "@", "__matmul__": "@", "__and__": "&", "__or__": "|", "__xor__": "^", "__lshift__": "<<", "__rshift__": ">>",
    "eq": "==", "__eq__": "==", "ne": "!=", "__ne__": "!=", "lt": "<", "__lt__": "<", "le": "<=", "__le__": "<=",
    "gt": ">", "__gt__": ">", "ge": ">=", "__ge__": ">=",
}  # fmt: skip
REFLECTED = {
    "__radd__": "+", "__rsub__": "-", "__rmul__": "*", "__rdiv__": "/", "__rtruediv__": "/", "__rfloordiv__": "//", "__rmod__": "%",
    "__rpow__": "**", "__rmatmul__": "@", "__rand__": "&", "__ror__": "|", "__rxor__": "^",
}  # fmt: skip
IN_PLACE = {
    "__iadd__": "+=", "__isub__": "-=", "__imul__": "*=", "__idiv__": "/=", "__itruediv__": "/=", "__ipow__": "**=",
    "__iand__": "&=", "__ior__": "|=", "__ixor__": "^=",
}  # fmt: skip
PREFIX = {"neg": "-", "__neg__": "-", "__invert__": "~"}
OPTIONAL = ("device", "dtype", "layout", "generator", "out", "pin_memory", "memory_format")
"""Keywords for which None means the default in every function."""
FUNCTIONAL = "torch.nn.functional."
MOST_TEXT = 20_000
"""Most characters of a call."""
_MARK = re.compile("\x01(\\d+)\x01")


def mark(number: int) -> str:
    """The mark of a value in source text."""
    return f"\x01{number}\x01"


def numbers_in(text: str) -> list[int]:
    """The numbers of the values named in a text, in order, without repeats."""
    return list(dict.fromkeys(map(int, _MARK.findall(text))))


def with_names(text: str, names: Sequence[str]) -> str:
    """The text with the names of its values in place of their marks."""
    return _MARK.sub(lambda found: names[int(found[1])], text)


def value_text(value: Any, number: Number) -> str:
    """Source text of an argument: nested tuples, lists, dicts and slices of tensors, generators and literals.

    Raises:
        Opaque: there is none, as for an object of the script's own.
    """
    if isinstance(value, (torch.Tensor, torch.Generator)):
        return number(value)
    if isinstance(value, tuple):
        items = [value_text(item, number) for item in value]
        return f"({', '.join(items)}{',' if len(items) == 1 else ''})"
    if isinstance(value, list):
        return f"[{', '.join(value_text(item, number) for item in value)}]"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{value_text(k, number)}: {value_text(v, number)}" for k, v in value.items()) + "}"
    if isinstance(value, slice):
        return f"slice({', '.join(value_text(part, number) for part in (value.start, value.stop, value.step))})"
    form = literal(value)
    return str(form["code"]) if isinstance(form, dict) else repr(form)


def call_text(func: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any], number: Number) -> str:
    """Source text of a call, without what binds its result. A call of ``__setitem__`` or an in-place operator is a statement.

    Raises:
        Opaque: the function or an argument has no source text, or it is too long.
    """
    text = _call_text(func, args, kwargs, number)
    if len(text) > MOST_TEXT:
        raise Opaque("a call with too long arguments")
    return text


def _call_text(func: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any], number: Number) -> str:
    name = getattr(func, "__name__", "")
    given = [value_text(arg, number) for arg in args]
    is_method = bool(args) and isinstance(args[0], torch.Tensor) and getattr(torch.Tensor, name, None) is func
    if is_method and not kwargs:
        if len(args) == 1 and name in PREFIX:
            return PREFIX[name] + given[0]
        if name == "__getitem__":
            return f"{given[0]}[{_index(args[1], number)}]"
        if name == "__setitem__":
            return f"{given[0]}[{_index(args[1], number)}] = {given[2]}"
        if len(args) == 2 and name in IN_PLACE:
            return f"{given[0]} {IN_PLACE[name]} {given[1]}"
        if len(args) == 2 and name in INFIX:
            return f"{given[0]} {INFIX[name]} {_operand(given[1])}"
        if len(args) == 2 and name in REFLECTED:
            return f"{_operand(given[1])} {REFLECTED[name]} {given[0]}"
    defaults = {} if is_method and not hasattr(func, "__code__") else defaults_of(func)
    said = {
        key: value
        for key, value in kwargs.items()
        if not (value is None and key in OPTIONAL)
        and (key, value) != ("memory_format", torch.preserve_format)
        and (key not in defaults or value is not defaults[key])
    }
    rest = [f"{key}={value_text(value, number)}" for key, value in said.items()]
    if is_method:
        return f"{given[0]}.{name}({', '.join([*given[1:], *rest])})"
    path = dotted_name(func)
    if path is None:
        raise Opaque(f"{name or func} has no public name")
    path = f"F.{path.removeprefix(FUNCTIONAL)}" if path.startswith(FUNCTIONAL) else path
    return f"{path}({', '.join([*given, *rest])})"


def _operand(text: str) -> str:
    return f"({text})" if text.startswith("-") else text


def _index(index: Any, number: Number) -> str:
    """The index of ``x[...]``, as written between the brackets."""
    if isinstance(index, tuple) and index:
        return ", ".join(_part(part, number) for part in index) + ("," if len(index) == 1 else "")
    return _part(index, number)


def _part(part: Any, number: Number) -> str:
    if not isinstance(part, slice):
        return value_text(part, number)
    bounds = ["" if bound is None else value_text(bound, number) for bound in (part.start, part.stop, part.step)]
    return ":".join(bounds if bounds[2] else bounds[:2])
