"""Compiles the equal blocks of a module one by one instead of the whole, or the one that it calls repeatedly: they share
one compilation.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from minimizer.engine.user_script.statements import span, text_at
from minimizer.engine.user_script.syntax import full_name, imported

KEYWORDS = {"fullgraph", "dynamic", "backend", "mode", "options", "disable"}
"""Keywords of ``torch.compile``: a method ``compile`` with others is not a module's."""


def each_block(text: str, tree: ast.Module, paths: Sequence[str], called: Sequence[str] = ()) -> str | None:
    """``block.compile()`` for each block in place of the script's only compilation of a module.

    ``paths``: of the lists of blocks from the compiled module. ``called``: of modules that are called repeatedly. None unless there is exactly one such statement.
    """
    names = imported(tree)
    compiling = [
        one for one in ast.walk(tree) if isinstance(one, ast.expr) and full_name(one, names) == "torch.compile"
    ]
    found = list(_compilations(tree))
    if len(found) != 1 or not (paths or called) or len(compiling) > isinstance(found[0][0], ast.Assign):
        return None
    statement, module, call, binds = found[0]
    if binds and _is_called_itself(tree, call.args[0]):
        return None  # the script's own eager reference
    begin, end = span(text, statement)
    before = text[:begin].rpartition("\n")[2]
    if before.strip():  # shares its line
        return None
    name = _free_name(tree)
    values = ((one.arg, text_at(text, one.value)) for one in call.keywords)
    given = ", ".join(f"{keyword}={value}" if keyword else f"**{value}" for keyword, value in values)
    loops = [
        line for path in paths for line in (f"for {name} in {module}{_steps(path)}:", f"    {name}.compile({given})")
    ]
    loops += [f"{module}{_steps(path)}.compile({given})" for path in called]
    first = [f"{module} = {text_at(text, call.args[0])}"] if binds else []
    return text[:begin] + f"\n{before}".join([*first, *loops]) + text[end:]


def _compilations(tree: ast.Module) -> Iterator[tuple[ast.stmt, str, ast.Call, bool]]:
    """Statements that compile a module: with its name, the call, and whether they bind it anew."""
    names = imported(tree)
    functions = {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
    for node in ast.walk(tree):
        match node:
            case ast.Assign(targets=[ast.Name() | ast.Attribute() as target], value=ast.Call(called, [given]) as call):
                is_method = isinstance(given, ast.Attribute) and given.attr in functions | {"step"}
                is_function = is_method or full_name(given, names) in functions
                if full_name(called, names) == "torch.compile" and not is_function:
                    yield node, ast.unparse(target), call, ast.unparse(target) != ast.unparse(given)
            case ast.Expr(ast.Call(ast.Attribute(module, "compile"), [], given) as call) if {
                one.arg for one in given
            } <= KEYWORDS:
                yield node, ast.unparse(module), call, False


def _is_called_itself(tree: ast.Module, given: ast.expr) -> bool:
    """Whether the script also calls the uncompiled module by a name."""
    called = [ast.unparse(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call)]
    return ast.unparse(given) in called


def _steps(path: str) -> str:
    """The path as an expression after the module's name."""
    return "".join(f"[{step}]" if step.isdigit() else f".{step}" for step in path.split(".") if step)


def _free_name(tree: ast.Module) -> str:
    used = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    return next(name for name in ("block", *(f"block_{number}" for number in range(len(used) + 1))) if name not in used)
