"""From parts to a file: imports, order, format, and how long it is."""

from __future__ import annotations

import ast
import builtins
import io
import subprocess
import sys
import tokenize
from collections.abc import Iterable
from dataclasses import dataclass

from ruff import find_ruff_bin  # type: ignore[import-untyped]

KNOWN_IMPORTS = {"F": "import torch.nn.functional as F", "Path": "from pathlib import Path", "torch": "import torch"}
_NO_CODE = {
    tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENCODING, tokenize.ENDMARKER,
}  # fmt: skip


@dataclass(frozen=True)
class Setup:
    """The script's own statements that the failure needs, by where they go."""

    imports: tuple[str, ...]
    definitions: tuple[str, ...]
    settings: tuple[str, ...]
    """Plain statements after the last definition: another version may refuse them, so they go inside ``try``."""
    names: frozenset[str]
    """All names they use or bind."""


def setup(statements: Iterable[str]) -> Setup:
    """Sort the statements of ``Program.setup``.

    Raises:
        SyntaxError: they are not Python.
    """
    source = "\n".join(statements) + "\n"
    tree = ast.parse(source)
    imports = [node for node in tree.body if isinstance(node, ast.Import | ast.ImportFrom)]
    others = [node for node in tree.body if not isinstance(node, ast.Import | ast.ImportFrom)]
    last = max(
        (i for i, node in enumerate(others) if not isinstance(node, ast.Assign | ast.AugAssign | ast.Expr)), default=-1
    )
    names = {alias.asname or alias.name.partition(".")[0] for node in imports for alias in node.names}
    names |= {n.id for n in ast.walk(tree) if isinstance(n, ast.Name)} | {getattr(n, "name", "") for n in others}
    return Setup(
        tuple(_segment(source, node) for node in imports),
        tuple(_segment(source, node) for node in others[: last + 1]),
        tuple(_segment(source, node) for node in others[last + 1 :]),
        frozenset(names),
    )


def assemble(header: str, parts: Iterable[str], *, imports: Iterable[str] = (), modules: Iterable[str] = ()) -> str:
    """One formatted file. Names that no part binds are imported if they are modules: known ones, or one of ``modules``."""
    body = "\n\n".join(part for part in parts if part.strip())
    given = "\n".join(imports)
    needed = _unbound(f"{given}\n{body}")
    lines = [
        KNOWN_IMPORTS.get(name, f"import {name}")
        for name in sorted(needed)
        if name in {*KNOWN_IMPORTS, *modules} or _stdlib(name)
    ]
    text = "\n".join([given, *lines, "", body, ""])
    text = _ruff(text, "check", "--fix-only", "--quiet", "--select", "F401,I001")
    return _ruff(f"{header}\n\n{text.strip()}\n", "format")


def code_lines(source: str) -> int:
    """Lines that hold code: not blank, no comment, not the module's docstring."""
    docstring: set[int] = set()
    body = ast.parse(source).body
    if (
        body
        and isinstance(body[0], ast.Expr)
        and isinstance(body[0].value, ast.Constant)
        and isinstance(body[0].value.value, str)
    ):
        docstring = set(range(body[0].lineno, (body[0].end_lineno or body[0].lineno) + 1))
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type not in _NO_CODE:
            lines.update(range(token.start[0], token.end[0] + 1))
    text = source.splitlines()
    return sum(1 for number in lines - docstring if text[number - 1].strip())


def _segment(source: str, node: ast.stmt) -> str:
    first = min([node.lineno, *(d.lineno for d in getattr(node, "decorator_list", []))])
    if node.col_offset or (";" in (line := source.splitlines()[first - 1]) and first == node.end_lineno and line):
        return ast.unparse(node)  # several statements on one line
    return "\n".join(source.splitlines()[first - 1 : node.end_lineno])


def _unbound(source: str) -> set[str]:
    tree = ast.parse(source)
    bound: set[str] = set(dir(builtins)) | {"__file__"}
    used: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Name):
            (used if isinstance(node.ctx, ast.Load) else bound).add(node.id)
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            bound.add(node.name)
        elif isinstance(node, ast.arg):
            bound.add(node.arg)
        elif isinstance(node, ast.alias):
            bound.add(node.asname or node.name.partition(".")[0])
        elif isinstance(node, ast.ExceptHandler) and node.name:
            bound.add(node.name)
    return used - bound


def _stdlib(name: str) -> bool:
    return name in sys.stdlib_module_names


def _ruff(source: str, *command: str) -> str:
    done = subprocess.run(
        [find_ruff_bin(), *command, "--isolated", "--no-cache", "--stdin-filename", "repro.py", "-"],
        input=source.encode(),
        capture_output=True,
        timeout=60,
        check=True,
    )
    return done.stdout.decode()
