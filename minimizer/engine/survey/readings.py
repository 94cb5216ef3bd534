"""Detects checks of the script's own that read a clock or a counter of the compiler, and not values."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from minimizer.engine.child.outcome import ExceptionInfo
from minimizer.engine.user_script.syntax import full_name, imported, names_stored

CLOCK = re.compile(
    r"^time\.(time|perf_counter|monotonic|process_time|thread_time)(_ns)?$|^timeit\.|(^|\.)datetime\.now$|\.elapsed_time$"
    r"|\.blocked_autorange$|\.timeit$|(^|\.)do_bench\w*$|^torch\.utils\.benchmark\."
)
COUNTER = re.compile(
    r"^torch\._dynamo\.utils\.(counters|compile_times|get_compilation_metrics)|^torch\._inductor\.metrics\.|\.(frame|op|graph|graph_break)_count$"
    r"|\.generated_kernel_count$|_debug_get_cache_entry_list$|^torch\.(compiler|_dynamo)\.is_\w*compiling$|^torch\._dynamo\.explain$"
)
TENSORS = re.compile(r"\b(assert_close|assert_allclose|allclose|isclose|equal|array_equal)\b")
"""Names in a check that compares values, which is not about time even if a clock is involved."""

Sources = dict[str, list[ast.AST]]


@dataclass(frozen=True)
class Check:
    """A statement that fails on purpose: its conditions, the innermost last, and whether it is inside a ``try``
    statement, so that it may depend on an exception."""

    tests: tuple[ast.AST, ...]
    in_try: bool = False


def reads_compiler(text: str, error: ExceptionInfo) -> bool:
    """Whether the check that raised ``error`` depends on a clock, on a counter of the compiler, or on records of a
    backend of the script's own, and not on values.
    """
    if TENSORS.search(_line(error)):
        return False
    tree, found = located(text, error)
    checks = [test for check in found for test in check.tests if not TENSORS.search(ast.unparse(test))]
    names, sources, noted = imported(tree), sources_of(tree), _noted(tree)
    return any(_reaches(check, names, sources, noted) for check in checks)


def _reaches(check: ast.AST, names: Mapping[str, str], sources: Sources, noted: frozenset[str]) -> bool:
    """Whether an expression reads one of these, directly or through the expressions that its names were assigned."""
    seen: set[str] = set()
    waiting: list[ast.AST] = [check]
    while waiting:
        for node in ast.walk(waiting.pop()):
            if isinstance(node, ast.Name | ast.Attribute):
                name = full_name(node, names)
                if CLOCK.search(name) or COUNTER.search(name):
                    return True
            if isinstance(node, ast.Name) and node.id not in seen:
                seen.add(node.id)
                if node.id in noted:
                    return True
                waiting += sources.get(node.id, [])
    return False


def located(text: str, error: ExceptionInfo) -> tuple[ast.Module, list[Check]]:
    """The script's tree and its checks at the line that raised; none if that is not found."""
    line = _line(error)
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError):
        tree = ast.Module([], [])
    return tree, list(_checks_at(tree, text.splitlines(), line)) if line else []


def _line(error: ExceptionInfo) -> str:
    """The line of the script that raised; empty if other code did."""
    return error.frames[-1][2] if error.frames and "/" not in error.frames[-1][0] else ""


def _checks_at(tree: ast.Module, lines: list[str], line: str) -> Iterator[Check]:
    """The checks at a line: an ``assert``, or a ``raise`` or an exit with the conditions around it."""

    def visit(node: ast.AST, conditions: tuple[ast.AST, ...], in_try: bool) -> Iterator[Check]:
        if isinstance(node, ast.stmt) and not isinstance(node, ast.If | ast.While | ast.For | ast.With | ast.Try):
            own = [lines[number - 1].strip() for number in range(node.lineno, (node.end_lineno or node.lineno) + 1)]
            if line in own and isinstance(node, ast.Assert):
                yield Check((node.test,))
            elif line in own and isinstance(node, ast.Raise | ast.Expr):
                yield Check(conditions, in_try)
        inside = (*conditions, node.test) if isinstance(node, ast.If | ast.While) else conditions
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            inside, in_try = (), False
        for child in ast.iter_child_nodes(node):
            yield from visit(child, inside, in_try or isinstance(node, ast.Try))

    return visit(tree, (), False)


def sources_of(tree: ast.Module) -> Sources:
    """The expressions that each name is assigned anywhere; for a function those that it returns."""
    found: Sources = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef):
            returned = [inner.value for inner in ast.walk(node) if isinstance(inner, ast.Return) and inner.value]
            found.setdefault(node.name, []).extend(returned)
        for name, value in _given(node):
            found.setdefault(name, []).append(value)
    return found


def _given(node: ast.AST) -> Iterator[tuple[str, ast.AST]]:
    """The names that a node assigns or appends to, each with the expression."""
    if isinstance(node, ast.Assign):
        targets, value = node.targets, node.value
    elif isinstance(node, ast.AugAssign | ast.AnnAssign | ast.NamedExpr) and node.value is not None:
        targets, value = [node.target], node.value
    elif isinstance(node, ast.For | ast.comprehension):
        targets, value = [node.target], node.iter
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):  # seconds.append(...)
        targets, value = [node.func.value], ast.Tuple([*node.args], ast.Load())
    else:
        return
    for target in targets:
        while isinstance(target, ast.Attribute | ast.Subscript):
            target = target.value
        for leaf in target.elts if isinstance(target, ast.Tuple | ast.List) else [target]:
            if isinstance(leaf, ast.Name):
                yield leaf.id, value


def _noted(tree: ast.Module) -> frozenset[str]:
    """The non-local names that the script's own backends write to."""
    words = [node for node in ast.walk(tree) if isinstance(node, ast.keyword) and node.arg == "backend"]
    backends = {word.value.id for word in words if isinstance(word.value, ast.Name)}
    bodies = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef) and node.name in backends]
    return frozenset().union(*(_written(body) - _local(body) for body in bodies))


def _written(body: ast.FunctionDef) -> frozenset[str]:
    return frozenset(name for node in ast.walk(body) for name, _ in _given(node))


def _local(body: ast.FunctionDef) -> frozenset[str]:
    nodes = list(ast.walk(body))
    shared = {name for node in nodes if isinstance(node, ast.Global | ast.Nonlocal) for name in node.names}
    stored = set(names_stored(nodes))
    return frozenset(stored - shared | {node.arg for node in nodes if isinstance(node, ast.arg)})
