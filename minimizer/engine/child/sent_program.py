"""Builds a `Program` from the child's JSON, and checks every name that will appear in source text."""

from __future__ import annotations

import re
from typing import Any

from minimizer.engine.child.protocol import MAX_DIMENSIONS, MAX_MODULES, MAX_NODES
from minimizer.engine.program.arguments import Arg, decode, dotted, identifier, leaves_in
from minimizer.engine.program.model import Body, Input, Node, Program, TensorMeta, View
from minimizer.engine.program.views import as_told
from minimizer.errors import ChildFailed, GraphTooLarge

INT64 = 1 << 63
STEPS = frozenset(["operator.getitem", ".view", ".permute", ".t", ".as_strided"])
"""The operations by which one input may be a view of another; `MAX_STEPS` limits their number."""
MAX_STEPS = 3


def parse_program(data: Any) -> Program:
    """Build a `Program` from a message.

    Raises:
        ChildFailed: the message is malformed.
        GraphTooLarge: it has more than `MAX_NODES` nodes, inputs or outputs.
    """
    try:
        _bound("nodes", len(data["nodes"]) + sum(len(body["nodes"]) for body in data["functions"]))
        _bound("inputs", len(data["inputs"]))
        _bound("outputs", len(data["outputs"]))
        return Program(
            inputs=as_told(_input(item) for item in data["inputs"]),
            nodes=tuple(_node(item) for item in data["nodes"]),
            outputs=tuple(identifier(name) for name in data["outputs"]),
            level="aot" if data["level"] == "aot" else "dynamo",
            setup=tuple(str(line) for line in data["setup"]),
            bodies=tuple(_body(item) for item in data["functions"]),
            compile_kwargs=tuple((identifier(k), str(v)) for k, v in data["compile_kwargs"].items()),
            around=tuple(_context(text) for text in data.get("around", ())),
            grad=bool(data["grad"]),
            marked=bool(data.get("marked", False)),
        )
    except (LookupError, TypeError, ValueError, AttributeError, OverflowError, RecursionError) as error:
        raise ChildFailed(f"the child sent a malformed program: {type(error).__name__}: {str(error)[:500]}") from None


def _bound(what: str, count: int) -> None:
    if count > MAX_NODES:
        raise GraphTooLarge(
            f"Its graph has {count:,} {what}, and one of at most {MAX_NODES:,} is taken apart. Compile a part of the model (one block of "
            "it), or unroll a loop fewer times, and run that."
        )


def _input(item: Any) -> Input:
    return Input(
        name=identifier(item["name"]),
        meta=_meta(item.get("meta")),
        golden=_moment(item["golden"]) if "golden" in item else None,
        code=str(item["code"]) if "code" in item else None,
        view=_view(item["view"]) if "view" in item else None,
        frozen=item.get("frozen") is True,
    )


def _view(item: Any) -> View:
    steps = [_step(step) for step in item["steps"]]
    if not 0 < len(steps) <= MAX_STEPS:
        raise ValueError(f"{len(steps)} operations that make a view")
    return View(of=identifier(item["of"]), steps=tuple(steps))


def _step(item: Any) -> Node:
    """One operation that makes a view.

    Raises:
        ValueError: it is none of `STEPS`, or its arguments are no numbers.
    """
    args: tuple[Arg, ...] = tuple(decode(arg) for arg in item["args"])
    is_empty = item["target"] == "operator.getitem" and args in ((), ((),))
    are_numbers = all(leaf is None or type(leaf) is int for leaf in leaves_in(args))
    if item["target"] not in STEPS or is_empty or not are_numbers:
        raise ValueError(f"no operation that makes a view: {str(item)[:80]!r}")
    return Node(name="", target=item["target"], args=args)


def _context(text: Any) -> str:
    """The text of an autocast context.

    Raises:
        ValueError: it is another text.
    """
    if re.fullmatch(r'torch\.autocast\("[a-z]+", (enabled=False|dtype=torch\.\w+)\)', str(text)) is None:
        raise ValueError(f"no context of autocast: {str(text)[:80]!r}")
    return str(text)


def _moment(golden: Any) -> str:
    """The name of a golden value, or ``name@node``: its value just before that node runs."""
    name, at, node = str(golden).partition("@")
    return f"{identifier(name)}@{identifier(node)}" if at else identifier(golden)


def _node(item: Any) -> Node:
    return Node(
        name=identifier(item["name"]),
        target=dotted(item["target"]),
        args=tuple(decode(arg) for arg in item["args"]),
        kwargs=tuple((identifier(key), decode(value)) for key, value in item["kwargs"].items()),
        meta=_meta(item.get("meta")),
        module=".".join(str(item.get("module", ""))[:1000].split(".")[:MAX_MODULES]),
        module_class=str(item.get("module_class", ""))[:200],
        source=_line(item.get("source")),
        library=_line(item.get("library")),
        number=_number(item.get("number")),
    )


def _line(line: Any) -> tuple[str, int, str] | None:
    return (str(line[0])[:1000], int(line[1]), str(line[2])[:1000]) if line else None


def _body(item: Any) -> Body:
    return Body(
        name=identifier(item["name"]),
        parameters=tuple(identifier(name) for name in item["parameters"]),
        nodes=tuple(_node(node) for node in item["nodes"]),
        result=decode(item["result"]),
    )


def _number(value: Any) -> bool | int | float | None:
    if value is None or isinstance(value, bool | int | float):
        return value
    raise ValueError(f"not a number: {str(value)[:80]!r}")


def _meta(item: Any) -> TensorMeta | None:
    if item is None:
        return None
    return TensorMeta(
        shape=_sizes(item["shape"]),
        dtype=dotted(item["dtype"]),
        stride=_sizes(item["stride"]) if item["stride"] is not None else None,
        device=identifier(item["device"]),
        requires_grad=bool(item["requires_grad"]),
        symbolic=_sizes(item.get("symbolic", ())),
    )


def _sizes(items: Any) -> tuple[int, ...]:
    """Sizes or strides of a tensor, bounded as in torch: the product of thousands of longer integers would take hours."""
    sizes = tuple(int(item) for item in items[:MAX_DIMENSIONS])
    if len(items) > MAX_DIMENSIONS or not all(-INT64 <= size < INT64 for size in sizes):
        raise ValueError("a tensor has more or larger dimensions than torch has")
    return sizes
