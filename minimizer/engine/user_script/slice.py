"""The prelude: the slice of the script that a window needs, as definitions, imports and other statements.

A custom pass, a custom operator, a backend, a replaced lowering or decomposition is part of the failure, and no literal
setting expresses it. The slice is syntactic: the statements that create this state, also inside blocks that `opened`
flattens, and those that bind the names in them, in the script's order.
"""

from __future__ import annotations

import ast
import builtins
import symtable
from collections.abc import Iterable, Iterator, Sequence

from minimizer.engine.user_script.statements import is_of_the_future
from minimizer.engine.user_script.syntax import names_stored
from minimizer.engine.user_script.unfolded import opened

BUILTIN_NAMESPACES = {
    "aten", "prims", "prim", "inductor", "mkldnn", "mkl", "quantized", "c10d", "higher_order", "rngprims",
}  # fmt: skip
REGISTERING = {
    "library", "register_fake", "register_kernel", "register_autograd", "register_decomposition", "impl", "define",
}  # fmt: skip
PREDEFINED = {*dir(builtins), "__file__", "__builtins__", "__annotations__"}
"""Names that every script has."""
MUTATING = {"clear", "pop", "setdefault", "update"}
"""Methods that change a table of torch's own, such as that of the decompositions."""


def prelude(
    script: str, *, settings: Iterable[str], namespaces: Iterable[str], names: Iterable[str] = ()
) -> tuple[str, ...]:
    """Slice a script. Statements that change torch itself are always part of the slice.

    Args:
        script: its text.
        settings: dotted names of settings whose values are objects, such as
            ``torch._inductor.config.joint_custom_post_pass``.
        namespaces: namespaces of custom operators that the graph calls.
        names: top-level names that are needed themselves, such as that of a backend.

    Returns:
        Statements as source text; the reducer drops or keeps each as a whole.
    """
    found = opened(script)
    statements = [item.statement for item in found]
    attributes = {name.rpartition(".")[2] for name in settings}
    spaces = set(namespaces)
    binders: dict[str, list[int]] = {}
    for index, statement in enumerate(statements):
        for name in names_bound(statement):
            binders.setdefault(name, []).append(index)
    paths = _paths(statements)
    anchors = [_sets(statement, attributes) or _patches(statement, paths) for statement in statements]
    pending = [index for index, is_anchor in enumerate(anchors) if is_anchor]
    pending += [binders[name][-1] for name in names if name in binders]
    pending += _registering(statements, spaces)
    needed: set[int] = set()
    while pending:
        index = pending.pop()
        if index in needed:
            continue
        needed.add(index)
        for name in names_used(found[index].text):
            # the nearest binding before the use; a function may use a later binding
            earlier = [binder for binder in binders.get(name, ()) if binder < index]
            pending += earlier[-1:] or binders.get(name, ())[:1]
        called = [_path(node, paths) for node in ast.walk(statements[index]) if isinstance(node, ast.Attribute)]
        if new := namespaces_of(called) - spaces:  # a pass may insert operators that the graph does not contain
            spaces |= new
            pending += _registering(statements, new)
    if any(isinstance(statements[index], ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) for index in needed):
        needed.update(index for index, statement in enumerate(statements) if is_of_the_future(statement))
    return tuple(found[index].text for index in sorted(needed))


def namespaces_of(targets: Iterable[str]) -> set[str]:
    """Namespaces of the custom operators among node targets such as ``torch.ops.mylib.scale.default``."""
    found = {parts[2] for target in targets if (parts := target.split("."))[:2] == ["torch", "ops"] and len(parts) > 3}
    return found - BUILTIN_NAMESPACES


def _sets(statement: ast.stmt, attributes: set[str]) -> bool:
    """Whether a statement sets an attribute of these names: ``config.post_grad_custom_post_pass = Pass()``."""
    if not isinstance(statement, ast.Assign | ast.AnnAssign):
        return False
    targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
    return any(isinstance(target, ast.Attribute) and target.attr in attributes for target in targets)


def _registering(statements: Sequence[ast.stmt], namespaces: set[str]) -> list[int]:
    return [i for i, statement in enumerate(statements) if namespaces and _registers(statement, namespaces)]


def _registers(statement: ast.stmt, namespaces: set[str]) -> bool:
    """Whether a statement defines or registers an operator of one of these namespaces."""
    names = {node.attr for node in ast.walk(statement) if isinstance(node, ast.Attribute)}
    names |= {node.id for node in ast.walk(statement) if isinstance(node, ast.Name)}
    texts = [
        node.value for node in ast.walk(statement) if isinstance(node, ast.Constant) and isinstance(node.value, str)
    ]
    mentions = any(text == space or text.startswith(f"{space}::") for text in texts for space in namespaces)
    if isinstance(statement, ast.FunctionDef | ast.ClassDef):
        return bool(statement.decorator_list) and (mentions or bool(names & REGISTERING))
    return mentions or bool(names & (REGISTERING - {"library"}))


def _patches(statement: ast.stmt, paths: dict[str, str]) -> bool:
    """Whether a statement changes torch itself: a table, an attribute, a registration; not a config value."""
    if isinstance(statement, ast.Assign | ast.AugAssign | ast.Delete):
        targets = [statement.target] if isinstance(statement, ast.AugAssign) else statement.targets
        changed = [_path(target, paths) for target in targets if isinstance(target, ast.Attribute | ast.Subscript)]
        return any(path.startswith("torch.") and "config" not in path.split(".") for path in changed)
    if isinstance(statement, ast.FunctionDef | ast.ClassDef):
        called = [_path(decorator, paths) for decorator in statement.decorator_list]
        return any(_is_registration(path) for path in called)
    if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call):
        path = _path(statement.value, paths)
        return _is_registration(path) or (path.startswith("torch.") and path.rpartition(".")[2] in MUTATING)
    return False


def _is_registration(path: str) -> bool:
    verb = path.rpartition(".")[2]
    return path.startswith("torch.") and (verb.startswith("register_") or verb == "substitute_in_graph")


def _paths(statements: Iterable[ast.stmt]) -> dict[str, str]:
    """The dotted paths of top-level names: imports, and plain aliases such as ``aten = torch.ops.aten``."""
    paths: dict[str, str] = {}
    for statement in statements:
        if isinstance(statement, ast.Import):
            for alias in statement.names:
                root = alias.name if alias.asname else alias.name.partition(".")[0]
                paths[alias.asname or root] = root
        elif isinstance(statement, ast.ImportFrom) and statement.module:
            paths.update({a.asname or a.name: f"{statement.module}.{a.name}" for a in statement.names})
        elif isinstance(statement, ast.Assign) and isinstance(statement.value, ast.Attribute):
            path = _path(statement.value, paths)
            paths.update({target.id: path for target in statement.targets if isinstance(target, ast.Name) and path})
    return paths


def _path(expression: ast.expr, paths: dict[str, str]) -> str:
    """The dotted path of an expression, through its calls and subscripts; empty if it starts at an unknown name."""
    if isinstance(expression, ast.Name):
        return paths.get(expression.id, "")
    if isinstance(expression, ast.Call):
        return _path(expression.func, paths)
    if isinstance(expression, ast.Subscript):
        return _path(expression.value, paths)
    if isinstance(expression, ast.Attribute) and (owner := _path(expression.value, paths)):
        return f"{owner}.{expression.attr}"
    return ""


def names_bound(statement: ast.stmt) -> set[str]:
    """The global names that a statement binds."""
    if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return {statement.name}
    if isinstance(statement, ast.Import):
        return {alias.asname or alias.name.partition(".")[0] for alias in statement.names}
    if isinstance(statement, ast.ImportFrom):
        return {alias.asname or alias.name for alias in statement.names}
    return set(names_stored(ast.walk(statement)))


def names_used(text: str) -> set[str]:
    """The global names that a statement reads; those of its arguments and locals are its own."""
    return {symbol.get_name() for symbol in _global_symbols(text) if symbol.is_referenced()}


def names_without_value(text: str) -> set[str]:
    """The global names that a script reads and never binds: a ``NameError`` where the reading line is reached."""
    if "import *" in text:
        return set()
    bound = {s.get_name() for s in _global_symbols(text) if s.is_assigned() or s.is_imported() or s.is_namespace()}
    return names_used(text) - bound - PREDEFINED


def _global_symbols(text: str) -> Iterator[symtable.Symbol]:
    """The symbols of the module's scope, and those of inner scopes that refer to it."""
    pending = [symtable.symtable(text, "statement", "exec")]
    for scope in pending:
        is_module = scope.get_type() == "module"
        yield from (symbol for symbol in scope.get_symbols() if is_module or symbol.is_global())
        pending += scope.get_children()
