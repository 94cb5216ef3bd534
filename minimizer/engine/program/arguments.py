"""Arguments of nodes: plain Python values that may contain references to other values, and expressions, at any depth.

Plain values are None, bool, int, float, str, tuple, list, dict and slice; `Ref` is a value of the program, and `Code`
an expression such as ``torch.float32``. They cross the pipe from the child in their JSON form.
"""

from __future__ import annotations

import keyword
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

Arg = Any
"""A node argument, as the module's docstring defines it."""


@dataclass(frozen=True)
class Ref:
    """A use of a value: the name of an input or of an earlier node."""

    name: str


@dataclass(frozen=True)
class Code:
    """A Python expression that is not a literal, such as ``torch.float32`` or ``float("nan")``."""

    text: str


def refs_in(arg: Arg) -> Iterator[str]:
    """Names of all `Ref` in an argument, at any depth."""
    yield from (leaf.name for leaf in leaves_in(arg) if isinstance(leaf, Ref))


def leaves_in(arg: Arg) -> Iterator[Arg]:
    """All leaves of an argument (anything but a container), at any depth."""
    if isinstance(arg, tuple | list):
        for item in arg:
            yield from leaves_in(item)
    elif isinstance(arg, dict):
        for item in arg.values():
            yield from leaves_in(item)
    elif isinstance(arg, slice):
        yield from leaves_in((arg.start, arg.stop, arg.step))
    else:
        yield arg


def map_leaves(arg: Arg, change: Callable[[Arg], Arg]) -> Arg:
    """Rebuild an argument with ``change`` applied to every leaf."""
    if isinstance(arg, tuple):
        return tuple(map_leaves(item, change) for item in arg)
    if isinstance(arg, list):
        return [map_leaves(item, change) for item in arg]
    if isinstance(arg, dict):
        return {key: map_leaves(item, change) for key, item in arg.items()}
    if isinstance(arg, slice):
        return slice(*(map_leaves(item, change) for item in (arg.start, arg.stop, arg.step)))
    return change(arg)


def substitution(values: Mapping[str, Arg]) -> Callable[[Arg], Arg]:
    """A change for `map_leaves` that replaces each `Ref` to one of these names by the argument given for it."""
    return lambda leaf: values.get(leaf.name, leaf) if isinstance(leaf, Ref) else leaf


def encode(arg: Arg) -> Any:
    """The JSON form of an argument.

    Containers and references are ``{"ref": name}``, ``{"code": text}``, ``{"tuple": []}``, ``{"slice": []}`` and
    ``{"dict": []}``.
    """
    if isinstance(arg, Ref):
        return {"ref": arg.name}
    if isinstance(arg, Code):
        return {"code": arg.text}
    if isinstance(arg, tuple):
        return {"tuple": [encode(item) for item in arg]}
    if isinstance(arg, list):
        return [encode(item) for item in arg]
    if isinstance(arg, slice):
        return {"slice": [encode(item) for item in (arg.start, arg.stop, arg.step)]}
    if isinstance(arg, dict):
        return {"dict": [[encode(key), encode(item)] for key, item in arg.items()]}
    return arg


def decode(data: Any) -> Arg:
    """Undo `encode`.

    Raises:
        ValueError: not a form that `encode` makes.
    """
    if data is None or isinstance(data, bool | int | float | str):
        return data
    if isinstance(data, list):
        return [decode(item) for item in data]
    if isinstance(data, dict) and len(data) == 1:
        ((form, value),) = data.items()
        if form == "ref":
            return Ref(identifier(value))
        if form == "code" and isinstance(value, str):
            return Code(value)
        if form == "tuple" and isinstance(value, list):
            return tuple(decode(item) for item in value)
        if form == "slice" and isinstance(value, list) and len(value) == 3:
            return slice(*(decode(item) for item in value))
        if form == "dict" and isinstance(value, list):
            return _decode_dict(value)
    raise ValueError(f"not an encoded argument: {str(data)[:80]}")


def _decode_dict(items: list[Any]) -> dict[Arg, Arg]:
    try:
        return {decode(key): decode(item) for key, item in items}
    except TypeError:  # not pairs, or an unhashable key
        raise ValueError(f"not an encoded dict: {str(items)[:80]}") from None


def identifier(name: Any) -> str:
    """Return ``name`` if it is a valid identifier. Names are untrusted input from the sandbox.

    Raises:
        ValueError: it is not.
    """
    if isinstance(name, str) and name.isidentifier() and not keyword.iskeyword(name) and len(name) <= 200:
        return name
    raise ValueError(f"not a name: {str(name)[:80]!r}")


def dotted(path: Any) -> str:
    """Return ``path`` if it is a dotted name, with or without a leading dot (a method).

    Raises:
        ValueError: it is not.
    """
    if isinstance(path, str):
        for part in path.removeprefix(".").split("."):
            identifier(part)
        return path
    raise ValueError(f"not a dotted name: {str(path)[:80]!r}")
