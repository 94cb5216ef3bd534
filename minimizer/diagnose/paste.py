"""Where a workaround goes in the user's script: edits of its text that leave the rest as it is."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass


@dataclass(frozen=True)
class Pasted:
    """A script with ``code`` in it; ``where`` says in words where that went."""

    text: str
    code: str
    where: str


def paste(text: str, code: str) -> Pasted:
    """Put statements before the first one at top level that has to do with ``compile``, else behind the imports."""
    tree = ast.parse(text)
    compiling = (node for node in tree.body if not isinstance(node, ast.Import | ast.ImportFrom) and _mentions(node))
    node = next(compiling, None)
    if node is None:
        number = _after_imports(tree)
        where = f"behind the imports (line {number})" if number else "at the top"
        return Pasted(_insert(text, number, code), code, where)
    first = _first_line(node)
    return Pasted(_insert(text, first - 1, code), code, f"before line {first}: {_line(text, first)}")


def disable_function(text: str, line: int) -> Pasted | None:
    """``@torch.compiler.disable`` on the innermost function around a line; None if there is none that is not compiled itself."""
    tree = ast.parse(text)
    around = [
        n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef) and n.lineno <= line <= (n.end_lineno or n.lineno)
    ]
    if not around:
        return None
    function = max(around, key=lambda n: n.lineno)
    if any("compile" in ast.unparse(d) for d in function.decorator_list) or function.name in _compiled(tree):
        return None
    indent, code = " " * function.col_offset, "@torch.compiler.disable"
    first = _first_line(function)
    where = f"above line {function.lineno}: {_line(text, function.lineno)}"
    return Pasted(_insert(text, first - 1, indent + code), code, where)


def disable_module(text: str, path: str) -> Pasted | None:
    """``torch.compiler.disable`` around one submodule of what the script compiles; None if it is not bound to a name."""
    tree = ast.parse(text)
    owner = _owner(tree, path.split("."))
    if owner is None:
        return None
    statement, name, steps = owner
    target = name + "".join(f"[{step}]" if step.isdigit() else f".{step}" for step in steps)
    code = f"{target} = torch.compiler.disable({target})"
    last = statement.end_lineno or statement.lineno
    where = f"behind line {last}: {_line(text, last)}"
    return Pasted(_insert(text, last, " " * statement.col_offset + code), code, where)


def other_backend(text: str, backend: str) -> Pasted | None:
    """Another backend at every ``torch.compile``; None where one is named already, or none is found."""
    tree = ast.parse(text)
    calls = [n for n in ast.walk(tree) if isinstance(n, ast.Call) and ast.unparse(n.func) == "torch.compile"]
    bare = [d for n in ast.walk(tree) if isinstance(n, ast.FunctionDef) for d in n.decorator_list]
    bare = [d for d in bare if ast.unparse(d) == "torch.compile"]
    if not (calls or bare) or any(k.arg in ("backend", "mode", "options", None) for c in calls for k in c.keywords):
        return None
    argument = f'backend="{backend}"'
    edits = [(*_end(call), f"{', ' if call.args or call.keywords else ''}{argument})", 1) for call in calls]
    edits += [(*_end(name), f"({argument})", 0) for name in bare]
    lines = text.splitlines(keepends=True)
    for number, column, added, dropped in sorted(edits, reverse=True):
        line = lines[number - 1].encode()  # columns count bytes
        kept = line[: column - dropped].decode()
        if dropped:
            kept = re.sub(r",\s*$", "", kept)
        lines[number - 1] = kept + added + line[column:].decode()
    code = f"torch.compile(..., {argument})"
    return Pasted("".join(lines), code, "at every torch.compile of the script")


def _end(node: ast.expr) -> tuple[int, int]:
    assert node.end_lineno is not None and node.end_col_offset is not None
    return node.end_lineno, node.end_col_offset


def _owner(tree: ast.Module, path: list[str]) -> tuple[ast.stmt, str, list[str]] | None:
    """The statement behind which a submodule can be reached, the name it is reached from, and the steps from there."""
    bound = [n for n in ast.walk(tree) if isinstance(n, ast.Assign) and isinstance(n.targets[0], ast.Name)]
    compiled = [n for n in bound if isinstance(n.value, ast.Call) and ast.unparse(n.value.func) == "torch.compile"]
    if compiled and isinstance(target := compiled[0].targets[0], ast.Name):
        return compiled[0], target.id, path
    for statement in bound:
        if isinstance(target := statement.targets[0], ast.Name) and target.id == path[0] and len(path) > 1:
            return statement, target.id, path[1:]
    for node in ast.walk(tree):
        match node:
            case ast.Expr(ast.Call(ast.Attribute(ast.Name(name), "compile"))) if name != "torch":
                return node, name, path
    return None


def _compiled(tree: ast.Module) -> set[str]:
    """The names of what is handed to ``torch.compile``."""
    calls = [n for n in ast.walk(tree) if isinstance(n, ast.Call) and ast.unparse(n.func) == "torch.compile"]
    return {arg.id for call in calls for arg in call.args if isinstance(arg, ast.Name)}


def _mentions(node: ast.stmt) -> bool:
    decorators = getattr(node, "decorator_list", [])
    return any(
        (isinstance(n, ast.Attribute) and n.attr == "compile") or (isinstance(n, ast.Name) and n.id == "compile")
        for part in (node, *decorators)
        for n in ast.walk(part)
    )


def _after_imports(tree: ast.Module) -> int:
    """The line behind which the body begins."""
    last = 0
    for node in tree.body:
        is_docstring = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and last == 0
        if not (is_docstring or isinstance(node, ast.Import | ast.ImportFrom)):
            break
        last = node.end_lineno or node.lineno
    return last


def _first_line(node: ast.stmt) -> int:
    decorators: list[ast.expr] = getattr(node, "decorator_list", [])
    return min([node.lineno, *(d.lineno for d in decorators)])


def _line(text: str, number: int) -> str:
    return text.splitlines()[number - 1].strip()[:100]


def _insert(text: str, after: int, code: str) -> str:
    lines = text.splitlines(keepends=True)
    if after and not lines[after - 1].endswith("\n"):
        lines[after - 1] += "\n"
    return "".join([*lines[:after], f"{code}\n" if code else "", *lines[after:]])
