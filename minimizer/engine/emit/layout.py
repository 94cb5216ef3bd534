"""Assembles a repro's parts into a file: imports, order, format, and its count of lines."""

from __future__ import annotations

import ast
import builtins
import io
import re
import subprocess
import symtable
import sys
import tokenize
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from ruff import find_ruff_bin  # type: ignore[import-untyped]

from minimizer.engine.user_script.statements import bound_name, script_lines, text_of
from minimizer.engine.user_script.syntax import DEFINITIONS, names_stored

CONFIGS = ("torch._dynamo.config", "torch._functorch.config", "torch._inductor.config")
"""Configuration modules that are reachable after ``import torch``."""
LOADED = {*CONFIGS, "torch", "torch.nn", "torch.nn.functional"}
"""Modules that ``import torch`` loads."""
ALIAS_USES = 3
"""Most uses for which a name is written out: an alias used more often is worth its line."""
LINE = 88
"""The default line length of ``ruff format``."""
INDENT = 4
"""Columns by which lines outside of definitions are indented, since they go inside ``try``."""
KNOWN_IMPORTS = {"F": "import torch.nn.functional as F", "Path": "from pathlib import Path", "torch": "import torch"}
_NO_CODE = {
    tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENCODING, tokenize.ENDMARKER,
}  # fmt: skip


@dataclass(frozen=True)
class Setup:
    """The script's own statements that the failure needs, by their place in the repro."""

    imports: tuple[str, ...]
    definitions: tuple[str, ...]
    settings: tuple[str, ...]
    """Plain statements after the last definition: another torch may reject them, so they go inside ``try``."""
    names: frozenset[str]
    """All global names that they use or bind."""


def setup(statements: Iterable[str]) -> Setup:
    """Sort the statements of ``Program.setup``, with aliases of torch's own names written out where that is shorter.

    Raises:
        SyntaxError: they are not Python.
    """
    source = _without_aliases(_one_a_line("\n".join(statements)))
    tree, lines = ast.parse(source), script_lines(source)
    imports = [node for node in tree.body if isinstance(node, ast.Import | ast.ImportFrom)]
    others = [node for node in tree.body if not isinstance(node, ast.Import | ast.ImportFrom)]
    last = max(
        (i for i, node in enumerate(others) if not isinstance(node, ast.Assign | ast.AugAssign | ast.Expr)), default=-1
    )
    return Setup(
        tuple(text_of(node, lines) for node in imports),
        tuple(text_of(node, lines) for node in others[: last + 1]),
        tuple(text_of(node, lines) for node in others[last + 1 :]),
        frozenset(_global_names(symtable.symtable(source, "setup", "exec"))),
    )


def _global_names(scope: symtable.SymbolTable) -> Iterator[str]:
    is_module = scope.get_type() == "module"
    yield from (symbol.get_name() for symbol in scope.get_symbols() if is_module or symbol.is_global())
    for inner in scope.get_children():
        yield from _global_names(inner)


def _one_a_line(source: str) -> str:
    lines = script_lines(source)
    return "".join(f"{text_of(node, lines)}\n" for node in ast.parse(source).body)


def _without_aliases(source: str) -> str:
    """Write out rarely used aliases of torch's names: ``torch._inductor.config.x = 1`` for ``config.x = 1``.

    An alias stays if the lines that use it would become too long.
    """
    tree = ast.parse(source)
    stored = names_stored(ast.walk(tree))
    stored += [n.arg for n in ast.walk(tree) if isinstance(n, ast.arg)]
    lines = source.encode().splitlines(keepends=True)
    within = {row for n in tree.body if isinstance(n, DEFINITIONS) for row in range(n.lineno, (n.end_lineno or 0) + 1)}
    gone: set[int] = set()
    uses: list[tuple[int, int, str, str]] = []
    for name, path, line in _aliases(tree):
        loads = [n for n in ast.walk(tree) if isinstance(n, ast.Name) and n.id == name and isinstance(n.ctx, ast.Load)]
        places = [(n.lineno, n.col_offset, name, path) for n in loads]
        exact = all(lines[row - 1][column:].startswith(name.encode()) for row, column, _, _ in places)
        rows = Counter(row for row, *_ in places)
        fits = all(
            len(lines[row - 1].rstrip()) + uses_there * (len(path) - len(name)) <= LINE - INDENT * (row not in within)
            for row, uses_there in rows.items()
        )
        few = len(places) <= ALIAS_USES and fits
        if few and exact and stored.count(name) == (line is not None):
            uses += places
            gone |= {line} if line is not None else set()
    for row, column, name, path in sorted(uses, reverse=True):
        text = lines[row - 1]
        lines[row - 1] = text[:column] + path.encode() + text[column + len(name.encode()) :]
    return b"".join(text for row, text in enumerate(lines, 1) if row not in gone).decode()


def _aliases(tree: ast.Module) -> Iterator[tuple[str, str, int | None]]:
    """Name, path and line of each alias; the line is None for an import, which `_without_idle` drops if unused."""
    for node in tree.body:
        if isinstance(node, ast.Import):
            yield from ((a.asname, a.name, None) for a in node.names if a.asname and a.name in CONFIGS)
        elif isinstance(node, ast.ImportFrom):
            paths = [(a.asname or a.name, f"{node.module}.{a.name}") for a in node.names]
            yield from ((name, path, None) for name, path in paths if path in CONFIGS)
        elif (
            isinstance(node, ast.Assign)
            and isinstance(node.value, ast.Attribute)
            and (name := bound_name(node)) is not None
            and re.fullmatch(r"torch(\.\w+)+", path := ast.unparse(node.value))
            and node.lineno == node.end_lineno
        ):
            yield name, path, node.lineno


def assemble(header: str, parts: Iterable[str], *, imports: Iterable[str] = (), modules: Iterable[str] = ()) -> str:
    """The formatted file. Unbound names are imported if they are known modules, standard ones, or among ``modules``."""
    body = "\n\n".join(part for part in parts if part.strip())
    given = "\n".join(imports)
    needed = _unbound(f"{given}\n{body}")
    lines = [
        KNOWN_IMPORTS.get(name, f"import {name}")
        for name in sorted(needed)
        if name in {*KNOWN_IMPORTS, *modules} or _stdlib(name)
    ]
    text = "\n".join([given, *lines, "", body, ""])
    text = _ruff(_without_idle(text), "check", "--fix-only", "--quiet", "--select", "I001,UP034")
    return _ruff(f"{header}\n\n{_without_gaps(_without_parentheses(text)).strip()}\n", "format")


def _without_idle(source: str) -> str:
    """The source without unused imported names, unless the import may have side effects, such as defining operators."""
    tree, lines = ast.parse(source), script_lines(source)
    imports = [node for node in tree.body if isinstance(node, ast.Import | ast.ImportFrom)]
    rest = "\n".join(ast.unparse(node) for node in tree.body if node not in imports)
    used = {"*", *re.findall(r"\w+", rest)}  # words, not names: a string may be an annotation
    for node in reversed(imports):
        inside = node.module or "" if isinstance(node, ast.ImportFrom) else ""
        names = [a for a in node.names if (a.asname or a.name.partition(".")[0]) in used]
        if not (inside and names):  # else the module is imported either way
            names = [a for a in node.names if a in names or not _only_binds(f"{inside}.{a.name}".lstrip("."))]
        if names != node.names:
            node.names = names
            lines[node.lineno - 1 : node.end_lineno] = [ast.unparse(node)] if names else []
    return "\n".join(lines)


def _only_binds(path: str) -> bool:
    """Whether importing a module has no effect but its name: torch has loaded it, or it is of the standard library."""
    root = path.partition(".")[0]
    return path in LOADED or (_stdlib(root) and root != "__future__")


def _without_gaps(source: str) -> str:
    """The source without the blank lines that ``ast.unparse`` puts before the first definition in a function."""
    lines: list[str | None] = [*script_lines(source)]
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            above = min([node.body[0].lineno, *(d.lineno for d in getattr(node.body[0], "decorator_list", []))]) - 2
            while not (lines[above] or "").strip():
                lines[above] = None
                above -= 1
    return "\n".join(line for line in lines if line is not None)


def _without_parentheses(source: str) -> str:
    """The source with ``return a, b`` and ``x = a, b``, where ``ast.unparse`` writes parentheses."""
    lines = source.encode().splitlines(keepends=True)
    given = [node.value for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Return | ast.Assign)]
    tuples = [value for value in given if isinstance(value, ast.Tuple) and value.lineno == value.end_lineno]
    for value in sorted(tuples, key=lambda value: value.col_offset, reverse=True):
        row, begin, end = value.lineno - 1, value.col_offset, value.end_col_offset or 0
        inside = lines[row][begin + 1 : end - 1]
        if len(value.elts) > 1 and _is_tuple(inside, value):
            lines[row] = lines[row][:begin] + inside + lines[row][end:]
    return b"".join(lines).decode()


def _is_tuple(source: bytes, expected: ast.Tuple) -> bool:
    try:
        return ast.dump(ast.parse(source.decode(), mode="eval").body) == ast.dump(expected)
    except (SyntaxError, UnicodeDecodeError):
        return False


def code_lines(source: str) -> int:
    """The number of lines with code: not blank, not only a comment, not the module's docstring."""
    docstring: set[int] = set()
    tree = ast.parse(source)
    if ast.get_docstring(tree) is not None:
        docstring = set(range(tree.body[0].lineno, (tree.body[0].end_lineno or tree.body[0].lineno) + 1))
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type not in _NO_CODE:
            lines.update(range(token.start[0], token.end[0] + 1))
    text = script_lines(source)
    return sum(1 for number in lines - docstring if text[number - 1].strip())


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
