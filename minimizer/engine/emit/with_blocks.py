"""Writes the modes of a graph as a person does: a pair of nodes that enters and leaves autocast or inference mode, or turns gradients off
and on again, is a ``with`` block.

Dynamo makes the same nodes of the block. Where something is computed with gradients off, and nothing turns them on again, the block goes
to the function's end, or the first run of the repro would leave them off for the second. Any other node without its counterpart stays as it is.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from minimizer.engine.user_script.statements import bound_name

GRAD_MODE = "torch._C._set_grad_enabled"


@dataclass(frozen=True)
class _Mode:
    """A mode that one node enters, and one that takes its result leaves.

    ``public``: the context manager; ``defaults``: its parameters behind the first one, in the order in which the node
    gives them, each with the text of its default.
    """

    leaves: str
    public: str
    defaults: Mapping[str, str] = field(default_factory=dict)

    def context(self, arguments: Sequence[ast.expr]) -> ast.expr:
        first, *others = map(ast.unparse, arguments)
        given = zip(self.defaults.items(), others, strict=False)
        options = "".join(f", {name}={value}" for (name, default), value in given if value != default)
        return ast.parse(f"{self.public}({first}{options})", mode="eval").body


PAIRS: Mapping[str, _Mode] = {
    "torch.amp.autocast_mode._enter_autocast": _Mode(
        "torch.amp.autocast_mode._exit_autocast",
        "torch.autocast",
        {"dtype": "None", "enabled": "True", "cache_enabled": "None"},
    ),
    "torch.autograd.grad_mode._enter_inference_mode": _Mode(
        "torch.autograd.grad_mode._exit_inference_mode", "torch.inference_mode"
    ),
}
"""By what enters it."""


@dataclass(frozen=True)
class _Block:
    """``stop``: the index of the statement that leaves it. ``has_grad``: whether gradients are on where it begins."""

    context: ast.expr
    stop: int
    has_grad: bool


def with_blocks(body: Sequence[ast.stmt], *, has_grad: bool) -> list[ast.stmt]:
    """The statements of a function with ``with`` blocks.

    ``has_grad``: whether gradients are on around them; only then does ``torch.no_grad()`` turn them on again behind it.
    """
    result: list[ast.stmt] = []
    at = 0
    while at < len(body):
        block = _block(body, at, has_grad=has_grad)
        if block is None:
            if _is_call(body[at], GRAD_MODE):
                has_grad = _is_call(body[at], GRAD_MODE, "True")
            result.append(body[at])
            at += 1
            continue
        inner, rest = with_blocks(body[at + 1 : block.stop], has_grad=block.has_grad), body[block.stop + 1 :]
        at = block.stop + 1
        if inner and len(rest) == 1 and _returns_names(rest[0]):
            inner, at = [*inner, rest[0]], len(body)
        if inner:
            result.append(ast.With(items=[ast.withitem(block.context)], body=inner))
    return result


def _block(body: Sequence[ast.stmt], start: int, *, has_grad: bool) -> _Block | None:
    """The block that begins at a statement; None if none does."""
    call = _call(body[start])
    if call is None:
        return None
    entry, later = PAIRS.get(ast.unparse(call.func)), range(start + 1, len(body))
    if entry is not None and not call.keywords:
        name = bound_name(body[start])
        users = [at for at in later if any(isinstance(n, ast.Name) and n.id == name for n in ast.walk(body[at]))]
        is_left = len(users) == 1 and _is_call(body[users[0]], entry.leaves)
        return _Block(entry.context(call.args), users[0], has_grad) if is_left else None
    if has_grad and _is_call(body[start], GRAD_MODE, "False"):
        stop = next((at for at in later if _is_call(body[at], GRAD_MODE)), len(body))
        is_left_open = stop == len(body) and not all(map(_returns_names, body[start + 1 :]))
        if is_left_open or (stop < len(body) and _is_call(body[stop], GRAD_MODE, "True")):
            return _Block(ast.parse("torch.no_grad()", mode="eval").body, stop, has_grad=False)
    return None


def _call(statement: ast.stmt) -> ast.Call | None:
    value = statement.value if isinstance(statement, ast.Assign | ast.Expr) else None
    return value if isinstance(value, ast.Call) else None


def _is_call(statement: ast.stmt, function: str, *arguments: str) -> bool:
    """Whether a statement is a call of a function, with these arguments if any are named."""
    call = _call(statement)
    if call is None or ast.unparse(call.func) != function:
        return False
    return not arguments or tuple(map(ast.unparse, call.args)) == arguments


def _returns_names(statement: ast.stmt) -> bool:
    """Whether it returns nothing but what is computed already, which no mode changes."""
    if not isinstance(statement, ast.Return) or statement.value is None:
        return False
    values = statement.value.elts if isinstance(statement.value, ast.Tuple) else [statement.value]
    return all(isinstance(value, ast.Name) for value in values)
