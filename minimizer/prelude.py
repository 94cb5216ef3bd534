"""What a window needs of its script: definitions, imports and statements that no config literal can express.

A custom pass, a custom operator or a registered decomposition is part of the failure and travels with it. The slice is
syntactic: the statements that bring the state about, and whatever top-level names these use, in the script's order.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

BUILTIN_NAMESPACES = {
    "aten",
    "prims",
    "prim",
    "inductor",
    "mkldnn",
    "mkl",
    "quantized",
    "c10d",
    "higher_order",
    "rngprims",
}
REGISTERING = {
    "library",
    "register_fake",
    "register_kernel",
    "register_autograd",
    "register_decomposition",
    "impl",
    "define",
}


def prelude(script: str, *, settings: Iterable[str], namespaces: Iterable[str]) -> tuple[str, ...]:
    """Slice a script.

    Args:
        script: its text.
        settings: dotted names of settings whose values are objects, such as ``torch._inductor.config.joint_custom_post_pass``.
        namespaces: namespaces of custom operators that the graph calls.

    Returns:
        Top-level statements as source text, each to be dropped or kept as a whole.
    """
    statements = ast.parse(script).body
    attributes = {name.rpartition(".")[2] for name in settings}
    spaces = set(namespaces)
    binders: dict[str, list[int]] = {}
    for index, statement in enumerate(statements):
        for name in _bound(statement):
            binders.setdefault(name, []).append(index)
    pending = [
        index
        for index, statement in enumerate(statements)
        if _sets(statement, attributes) or (spaces and _registers(statement, spaces))
    ]
    needed: set[int] = set()
    while pending:
        index = pending.pop()
        if index in needed:
            continue
        needed.add(index)
        for name in _used(statements[index]):
            # the nearest binding before the use; a function may use what is bound after it
            earlier = [binder for binder in binders.get(name, ()) if binder < index]
            pending += earlier[-1:] or binders.get(name, ())[:1]
    return tuple(_text(script, statements[index]) for index in sorted(needed))


def namespaces_of(targets: Iterable[str]) -> set[str]:
    """Namespaces of the custom operators among node targets such as ``torch.ops.mylib.scale.default``."""
    found = {parts[2] for target in targets if (parts := target.split("."))[:2] == ["torch", "ops"] and len(parts) > 3}
    return found - BUILTIN_NAMESPACES


def _sets(statement: ast.stmt, attributes: set[str]) -> bool:
    """Whether it assigns to an attribute of one of these names, as in ``config.post_grad_custom_post_pass = Pass()``."""
    if not isinstance(statement, ast.Assign | ast.AnnAssign):
        return False
    targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
    return any(isinstance(target, ast.Attribute) and target.attr in attributes for target in targets)


def _registers(statement: ast.stmt, namespaces: set[str]) -> bool:
    """Whether it defines or registers something for one of these namespaces."""
    names = {node.attr for node in ast.walk(statement) if isinstance(node, ast.Attribute)}
    names |= {node.id for node in ast.walk(statement) if isinstance(node, ast.Name)}
    texts = [
        node.value for node in ast.walk(statement) if isinstance(node, ast.Constant) and isinstance(node.value, str)
    ]
    mentions = any(text == space or text.startswith(f"{space}::") for text in texts for space in namespaces)
    if isinstance(statement, ast.FunctionDef | ast.ClassDef):
        return bool(statement.decorator_list) and (mentions or bool(names & REGISTERING))
    return mentions or bool(names & (REGISTERING - {"library"}))


def _bound(statement: ast.stmt) -> Iterator[str]:
    if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        yield statement.name
    elif isinstance(statement, ast.Import):
        for alias in statement.names:
            yield alias.asname or alias.name.partition(".")[0]
    elif isinstance(statement, ast.ImportFrom):
        for alias in statement.names:
            yield alias.asname or alias.name
    else:
        for node in ast.walk(statement):
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                yield node.id


def _used(statement: ast.stmt) -> set[str]:
    return {node.id for node in ast.walk(statement) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)}


def _text(script: str, statement: ast.stmt) -> str:
    first = min([statement.lineno, *(d.lineno for d in getattr(statement, "decorator_list", ()))])
    return "\n".join(script.splitlines()[first - 1 : statement.end_lineno])
