"""Scripts that are about the compiler itself, by their text: with it they see something else, and nothing is at fault."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping

from minimizer.engine.user_script.syntax import decorators, full_name, imported

READS_COMPILER = re.compile(
    r"^torch\._dynamo\.(utils\.(?!counters)\w|convert_frame|eval_frame|explain|guards|callback|symbolic_convert|output_graph)"
    r"|^torch\.(autograd\.)?profiler\.(?!record_function$)\w|^(tracemalloc|psutil|resource)\.\w|^gc\.get_|^sys\.getrefcount$|^weakref\.(ref|finalize|proxy)$"
    r"|\.(max_)?memory_(allocated|reserved|stats|summary|usage|snapshot)$|\.mem_get_info$"
)
"""Names that reveal the compiler to a script: how compilation went, what it left behind, how much memory is in use.
Dynamo's counters are not among them, since the exact runs silence those, nor ``record_function``, which only marks a region."""
STANCE = "set_stance"
RUN_BY_COMPILER = re.compile(
    r"(^|\.)(register_fake|impl_abstract|allow_in_graph|assume_constant_result|nonstrict_trace|register_pytree_node)$"
)
"""Functions to which a script gives a function that the compiler then runs on its own account, as often as it likes."""
RUN_ON_SUBCLASSES = ("__torch_dispatch__", "__tensor_flatten__", "__tensor_unflatten__")
"""Methods of a tensor subclass that the compiler runs on its own account; those of a mode it leaves to the run."""


def reads_compiler(text: str) -> str:
    """Why a script is about the compiler itself; empty if it is not."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError):
        return "it is not Python"
    if STANCE in text:
        return "the script sets a stance of the compiler by itself"
    names = imported(tree)
    told = {id(statement.value) for statement in ast.walk(tree) if isinstance(statement, ast.Expr)}
    for node in ast.walk(tree):
        name = ""
        if isinstance(node, ast.Attribute | ast.Name):
            name = full_name(node, names)
        elif isinstance(node, ast.Call) and full_name(node.func, names) == "gc.collect" and id(node) not in told:
            name = "gc.get_count"  # its result counts the compiler's garbage too
        elif isinstance(node, ast.FunctionDef) and node.name == "__del__":
            return "the script says when an object is deleted (__del__), and the compiler may hold it for longer"
        if READS_COMPILER.search(name):
            return f"the script looks at the compiler, at memory or at what is still alive ({name[:60]})"
    if name := _runs_with_compiler(tree, names):
        return f"a function that the script gives to {name} changes its state, and the compiler runs it as often as it likes"
    named = next((name for name in names.values() if READS_COMPILER.search(name)), "")
    return f"the script looks at the compiler (it imports {named[:60]})" if named else ""


def _runs_with_compiler(tree: ast.Module, names: Mapping[str, str]) -> str:
    """What a script gives a function that the compiler runs on its own account and that changes more than its own; empty if nothing."""
    given: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and (found := RUN_BY_COMPILER.search(full_name(node.func, names))):
            given.update({part.id: found[2] for part in node.args if isinstance(part, ast.Name)})
    for function in ast.walk(tree):
        if not isinstance(function, ast.FunctionDef):
            continue
        marks = (RUN_BY_COMPILER.search(name) for name, _ in decorators(function, names))
        found = next(filter(None, marks), None)
        to = found[2] if found else given.get(function.name, "")
        if to and _changes_others(function, names):
            return to
    for kind in ast.walk(tree):
        if isinstance(kind, ast.ClassDef) and not any(full_name(b, names).endswith("DispatchMode") for b in kind.bases):
            methods = (m for m in kind.body if isinstance(m, ast.FunctionDef) and m.name in RUN_ON_SUBCLASSES)
            if (method := next((m for m in methods if _changes_others(m, names, is_method=True)), None)) is not None:
                return f"a tensor subclass ({method.name})"
    return ""


def _changes_others(function: ast.FunctionDef, names: Mapping[str, str], *, is_method: bool = False) -> bool:
    """Whether a function changes a global, or an object that it finds in one; calls whose result it drops count, but for torch's.

    What a method changes in its class or its object counts too.
    """
    parts = [part for statement in function.body for part in ast.walk(statement)]
    own = {part.arg for part in ast.walk(function.args) if isinstance(part, ast.arg)}
    if is_method and "staticmethod" not in (name for name, _ in decorators(function, names)):
        own -= {part.arg for part in [*function.args.posonlyargs, *function.args.args][:1]}
    own |= {part.id for part in parts if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store)}
    for part in parts:
        if isinstance(part, ast.Global | ast.Nonlocal):
            return True
        changed: ast.expr | None = None
        if isinstance(part, ast.Attribute | ast.Subscript) and isinstance(part.ctx, ast.Store | ast.Del):
            changed = part
        elif isinstance(part, ast.Expr) and isinstance(part.value, ast.Call):
            changed = part.value.func
        if not isinstance(changed, ast.Attribute | ast.Subscript):
            continue
        while isinstance(changed, ast.Attribute | ast.Subscript):
            changed = changed.value
        if isinstance(changed, ast.Name) and changed.id not in own | names.keys():
            return True
    return False
