"""Names the construct of a reduced script that a compiler may get wrong, if no operator of a graph is at fault, and its
line.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from minimizer.engine.user_script.syntax import DEFINITIONS, FUNCTIONS, decorators, full_name, imported

AUTOGRAD_FUNCTION = "autograd.Function"
RULES = {
    "jvp": re.compile(r"(^|\.)(jvp|jacfwd|linearize|make_dual|dual_level)$"),
    "vmap": re.compile(r"(^|\.)(vmap|jacrev|jacfwd|hessian)$"),
    "backward": re.compile(r"(^|\.)(backward|grad|vjp|grad_and_value|jacrev)$"),
}
"""Methods of an autograd.Function, with the caller of each; rarely used ones come first."""
GRADIENT = re.compile(r"\.backward$|^torch\.autograd\.(grad|backward)$")
TRANSFORM = re.compile(r"^torch\.(func\.\w+|vmap)$")
KEPT = {"create_graph": "gradient that is differentiated again", "retain_graph": "second gradient through one graph"}
"""Arguments of a gradient that keep its graph, and their purpose."""
WRAPPER = re.compile(
    r"functools\.(cache|lru_cache|cached_property|partialmethod|singledispatch(method)?)|contextlib\.(async)?contextmanager"
)
"""Matches decorators of the standard library that replace a function."""
USUAL = ("__init__", "__new__", "__call__")
"""Special methods that nearly every class has."""
DONATED, DONATED_BUFFERS = re.compile(r"\bdonated\b"), "second gradient through a graph whose buffers were donated"


@dataclass(frozen=True)
class Construct:
    """A construct: its description, and its line in the script."""

    what: str
    line: int


def construct_of(tree: ast.Module, message: str = "") -> Construct | None:
    """The construct of a reduced script to name as the culprit; None if it has none of these.

    ``message``: that of the failure.
    """
    names = imported(tree)
    finders: tuple[Callable[[], Iterator[Construct]], ...] = (
        lambda: _rules(tree, names),
        lambda: _gradients(tree, names, message),
        lambda: _handlers(tree, names),
        lambda: _wrapped(tree, names),
    )
    return next((found for finder in finders for found in finder()), None)


def context_of(tree: ast.Module) -> Construct | None:
    """The remaining transform or context of torch around a reduced script's computation, or a special method of its
    own.

    Only a hint next to an operator.
    """
    names = imported(tree)
    return next((found for finder in (_transforms, _contexts, _protocols) for found in finder(tree, names)), None)


def _rules(tree: ast.Module, names: Mapping[str, str]) -> Iterator[Construct]:
    """A rule of an autograd.Function that the script causes to be called; else the function itself."""
    called = [full_name(node.func, names) for node in ast.walk(tree) if isinstance(node, ast.Call)]
    for made in (node for node in ast.walk(tree) if isinstance(node, ast.ClassDef)):
        if not any(full_name(base, names).endswith(AUTOGRAD_FUNCTION) for base in made.bases):
            continue
        methods = {method.name: method for method in made.body if isinstance(method, ast.FunctionDef)}
        used = [rule for rule, call in RULES.items() if rule in methods and any(map(call.search, called))]
        if used:
            yield Construct(f"{used[0]} of an `{AUTOGRAD_FUNCTION}`", methods[used[0]].lineno)
        else:
            yield Construct(f"an `{AUTOGRAD_FUNCTION}`", made.lineno)


def _gradients(tree: ast.Module, names: Mapping[str, str], message: str) -> Iterator[Construct]:
    """A gradient that keeps its graph for another one."""
    calls = [n for n in ast.walk(tree) if isinstance(n, ast.Call) and GRADIENT.search(full_name(n.func, names))]
    for word, what in KEPT.items():
        kept = [call for call in calls if any(k.arg == word and _is_true(k.value) for k in call.keywords)]
        if DONATED.search(message):
            kept, what = kept or calls[-1:], DONATED_BUFFERS
        if kept:
            yield Construct(f"{what} (`{_short(full_name(kept[0].func, names))}`)", kept[0].lineno)


def _is_true(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is True


def _handlers(tree: ast.Module, names: Mapping[str, str]) -> Iterator[Construct]:
    """An exception handler inside a function, with the last call that it guards."""
    for function in (node for node in ast.walk(tree) if isinstance(node, FUNCTIONS)):
        for tried in (node for node in ast.walk(function) if isinstance(node, ast.Try) and node.handlers):
            calls = [n for inner in tried.body for n in ast.walk(inner) if isinstance(n, ast.Call)]
            known = [name for call in calls if (name := full_name(call.func, names)).startswith("torch.")]
            around = f" around `{known[-1]}`" if known else ""
            yield Construct(f"`except` clause{around}", tried.handlers[0].lineno)


def _wrapped(tree: ast.Module, names: Mapping[str, str]) -> Iterator[Construct]:
    """A function replaced by a wrapper of the standard library, such as a cache."""
    for function in (node for node in ast.walk(tree) if isinstance(node, DEFINITIONS)):
        for name, line in decorators(function, names):
            if WRAPPER.fullmatch(name):
                yield Construct(f"`{name}` around `{function.name}`", line)


def _transforms(tree: ast.Module, names: Mapping[str, str]) -> Iterator[Construct]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and TRANSFORM.search(name := full_name(node.func, names)):
            yield Construct(f"`{name}`", node.lineno)


def _contexts(tree: ast.Module, names: Mapping[str, str]) -> Iterator[Construct]:
    """A context of torch inside a function."""
    for function in (node for node in ast.walk(tree) if isinstance(node, FUNCTIONS)):
        for block in (node for node in ast.walk(function) if isinstance(node, ast.With)):
            for item in block.items:
                called = item.context_expr.func if isinstance(item.context_expr, ast.Call) else item.context_expr
                if (name := full_name(called, names)).startswith("torch."):
                    yield Construct(f"`with {name}` block", block.lineno)


def _protocols(tree: ast.Module, names: Mapping[str, str]) -> Iterator[Construct]:
    """A special method of a class of the script's own, perhaps a property, that the language itself calls."""
    for made in (node for node in ast.walk(tree) if isinstance(node, ast.ClassDef)):
        for method in (node for node in made.body if isinstance(node, ast.FunctionDef)):
            if method.name.startswith("__") and method.name.endswith("__") and method.name not in USUAL:
                is_property = any(full_name(decorator, names) == "property" for decorator in method.decorator_list)
                yield Construct(f"{'property ' * is_property}`{made.name}.{method.name}`", method.lineno)


def _short(name: str) -> str:
    return name if name.startswith("torch.") else name.rpartition(".")[2]
