"""A script as a candidate: its syntax tree, whose nodes keep their numbers through edits.

An edit is a function from a node to its replacement. Edits refer to nodes by number, so that they can be applied to any
later best script: a node that is gone is not edited.
"""

from __future__ import annotations

import ast
import builtins
import copy
import hashlib
import keyword
from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TypeVar

from minimizer.engine.user_script.slice import names_without_value

Replacement = ast.AST | Sequence[ast.AST] | None
"""The replacement of a node: another node, several (only in a list of nodes), or None to remove it."""

Edit = Callable[[ast.AST], Replacement]
T = TypeVar("T")

NAMED = {ast.Name: "id", ast.arg: "arg", ast.FunctionDef: "name", ast.AsyncFunctionDef: "name", ast.ClassDef: "name"}
"""The nodes that bind or read a name, with the field that has it."""
BODIES = ("body", "orelse", "finalbody")


@dataclass(frozen=True, eq=False)
class Source:
    """A script as a syntax tree; ``size``: the number of its statements."""

    tree: ast.Module

    @staticmethod
    def parse(text: str) -> Source:
        """Read a script, and number its nodes.

        Raises:
            SyntaxError: it is not Python.
        """
        return Source(_numbered(ast.parse(text)))

    @cached_property
    def text(self) -> str:
        """The script in canonical layout."""
        return ast.unparse(ast.fix_missing_locations(self.tree)) + "\n"

    @property
    def size(self) -> int:
        return len(self.statements)

    @cached_property
    def statements(self) -> list[ast.stmt]:
        """All statements, those of a block after the block itself, outer blocks first."""
        return [node for node in ast.walk(self.tree) if isinstance(node, ast.stmt)]

    def level(self, depth: int) -> list[ast.stmt]:
        """The statements nested in ``depth`` others."""
        statements = list(self.tree.body)
        for _ in range(depth):
            statements = [inner for outer in statements for inner in _inner(outer)]
        return statements

    @cached_property
    def key(self) -> tuple[int, ...]:
        """The order of scripts, smaller is better: fewer statements, fewer nodes, smaller numbers, shorter text."""
        return (
            self.size,
            sum(1 for _ in ast.walk(self.tree)),
            sum(map(_magnitude, ast.walk(self.tree))),
            len(self.text),
        )

    def fingerprint(self) -> str:
        """A hash of the text."""
        return hashlib.sha256(self.text.encode()).hexdigest()

    def nodes(self) -> Iterator[ast.AST]:
        """Every node, parents before children, in the order of the text."""
        pending: list[ast.AST] = [self.tree]
        while pending:
            node = pending.pop()
            yield node
            pending += reversed(list(ast.iter_child_nodes(node)))

    def edited(self, edits: Mapping[int, Edit]) -> Source | None:
        """The script with an edit applied to each of these nodes.

        None if unchanged, invalid Python, or without a name it still reads.
        """
        tree = copy.deepcopy(self.tree)
        Editor(edits).visit(tree)
        source = Source(_numbered(tree))
        try:
            ast.parse(source.text)
            lacks = source._without_value - self._without_value
        except (SyntaxError, ValueError, TypeError, AttributeError, RecursionError):
            return None
        return source if source.text != self.text and not lacks else None

    @cached_property
    def _without_value(self) -> set[str]:
        return names_without_value(self.text)

    def with_lines(self, place: int, text: str) -> Source:
        """The script with further statements before its statement at this place."""
        tree = copy.deepcopy(self.tree)
        tree.body[place:place] = ast.parse(text).body
        return Source(_numbered(tree))

    @property
    def names(self) -> Iterator[str]:
        """The names of variables, parameters, functions and classes, wherever one is bound or read."""
        return filter(None, map(named, self.nodes()))

    def renamed(self, name: str, to: str) -> Source | None:
        """The script with another name in place of one of `names`; None if that is taken, or is no name."""
        if to in self.names or not to.isidentifier() or keyword.iskeyword(to) or hasattr(builtins, to):
            return None
        tree = copy.deepcopy(self.tree)
        for node in ast.walk(tree):
            if named(node) == name:
                setattr(node, NAMED[type(node)], to)
            elif isinstance(node, ast.Global | ast.Nonlocal):
                node.names = [to if one == name else one for one in node.names]
        return Source(tree)

    def without(self, numbers: Sequence[int]) -> Source | None:
        """The script without these nodes: statements, or items of a list such as arguments or imported names."""
        return self.edited(dict.fromkeys(numbers, lambda node: None))


def changed_lines(before: Source, after: Source) -> Hashable:
    """The lines that a script lost and gained; for repeated lines also their neighbours."""
    lines = before.text.splitlines(), after.text.splitlines()
    lost, got = _change(Counter(lines[0]), Counter(lines[1]))
    if all(lines[0].count(line) == 1 for line, _ in lost):
        return lost, got
    return _change(*(Counter(zip(["", *one], [*one, ""], strict=True)) for one in lines))


def _change(before: Counter[T], after: Counter[T]) -> tuple[frozenset[tuple[T, int]], frozenset[tuple[T, int]]]:
    return frozenset((before - after).items()), frozenset((after - before).items())


def _numbered(tree: ast.Module) -> ast.Module:
    """Number the nodes created or copied by an edit; the others keep their numbers."""
    taken: set[int] = set()
    new: list[ast.AST] = []
    for node in ast.walk(tree):
        number = getattr(node, "number", None)
        if number is None or number in taken:
            new.append(node)
        else:
            taken.add(number)
    for number, node in enumerate(new, max(taken, default=-1) + 1):
        node.number = number  # type: ignore[attr-defined]
    return tree


def _inner(statement: ast.stmt) -> list[ast.stmt]:
    blocks = [statement, *getattr(statement, "handlers", ()), *getattr(statement, "cases", ())]
    return [inner for block in blocks for field in BODIES for inner in getattr(block, field, ())]


def named(node: ast.AST) -> str:
    """The name that a node binds or reads, of a variable, parameter, function or class; empty for other nodes."""
    return str(getattr(node, NAMED[type(node)])) if type(node) in NAMED else ""


def number_of(node: ast.AST) -> int:
    """The number under which an edit finds this node."""
    return int(getattr(node, "number", -1))


class Editor(ast.NodeTransformer):
    """Applies edits from the outside in; the result of an edit is not edited again."""

    def __init__(self, edits: Mapping[int, Edit]) -> None:
        self._edits = edits

    def visit(self, node: ast.AST) -> Replacement:
        edit = self._edits.get(number_of(node))
        if edit is not None:
            return edit(node)
        if isinstance(node, ast.Dict):
            return self._entries(node)
        self.generic_visit(node)
        if isinstance(node, ast.Try) and not node.handlers and not node.finalbody:
            return [*node.body, *node.orelse]
        if isinstance(node, ast.With) and not node.items:
            return node.body
        if isinstance(node, ast.BoolOp) and len(node.values) < 2:
            return node.values[0] if node.values else ast.Constant(value=True)
        if isinstance(node, ast.Import | ast.ImportFrom) and not node.names:
            return None
        if isinstance(node, ast.stmt | ast.ExceptHandler | ast.match_case) and getattr(node, "body", None) == []:
            setattr(node, "body", [ast.Pass()])  # noqa: B010  (no common type has it)
        return node

    def _entries(self, node: ast.Dict) -> ast.Dict:
        """Edit the entries of a dict; a key is removed with its value."""
        pairs = [
            (key and self.visit(key), self.visit(value)) for key, value in zip(node.keys, node.values, strict=True)
        ]
        kept = [(key, value) for key, value in pairs if value is not None]
        node.keys, node.values = [key for key, _ in kept], [value for _, value in kept]  # type: ignore[misc]
        return node


def _magnitude(node: ast.AST) -> int:
    """The weight of a number in `Source.key`: its size; 0 for 0, 1 and other nodes."""
    value = node.value if isinstance(node, ast.Constant) else None
    if isinstance(value, bool) or not isinstance(value, int | float):
        return 0
    return (
        0 if value in (0, 1) else min(int(abs(value)), 1 << 30) + 1 if value == value and abs(value) < 1e9 else 1 << 30
    )
