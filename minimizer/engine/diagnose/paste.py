"""Inserts a workaround into the text of the user's script, leaving the rest unchanged."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import unified_diff

from minimizer.engine.user_script.statements import first_line, lines_of, span, text_at, with_text
from minimizer.engine.user_script.syntax import full_name, imported


@dataclass(frozen=True)
class Pasted:
    """A script with ``code`` inserted; ``where``: the place, in words."""

    text: str
    code: str
    where: str


def paste(text: str, code: str) -> Pasted:
    """Insert statements before the first top-level one that mentions ``compile``, else after the imports."""
    tree = ast.parse(text)
    compiling = (node for node in tree.body if not isinstance(node, ast.Import | ast.ImportFrom) and _mentions(node))
    node = next(compiling, None)
    if node is None:
        number = _after_imports(tree)
        where = f"behind the imports (line {number})" if number else "at the top"
    else:
        first = first_line(node)
        number, where = first - 1, f"before line {first} ({quoted(text, first)})"
    code = _with_torch(tree, number, code)
    return Pasted(inserted(text, number, code), code, where)


def set_again(text: str, name: str, code: str) -> Pasted | None:
    """Insert a statement after the last assignment to the setting ``name``; None if there is none."""
    tree = ast.parse(text)
    names = imported(tree)
    assigned = [
        n for n in ast.walk(tree) if isinstance(n, ast.Assign) for t in n.targets if full_name(t, names) == name
    ]
    return _behind(text, max(assigned, key=lambda n: n.lineno), code) if assigned else None


def function_around(tree: ast.Module, line: int) -> ast.FunctionDef | None:
    """The innermost function around a line."""
    around = [
        n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef) and n.lineno <= line <= (n.end_lineno or n.lineno)
    ]
    return max(around, key=lambda n: n.lineno, default=None)


def is_method_of_a_module(text: str, line: int) -> bool:
    """Whether the innermost function around a line is a module's ``forward`` or the like, and so no narrower than the
    module.
    """
    function = function_around(ast.parse(text), line)
    return function is not None and function.name in ("forward", "__call__")


def disable_function(text: str, line: int) -> Pasted | None:
    """``@torch.compiler.disable`` on the innermost function around a line; None if there is none or it is compiled."""
    tree = ast.parse(text)
    function = function_around(tree, line)
    if function is None or function.name in _compiled(tree):
        return None
    if any("compile" in ast.unparse(d) for d in function.decorator_list):
        return None
    return disable(text, tree, function)


def disable(text: str, tree: ast.Module, function: ast.FunctionDef) -> Pasted:
    """``@torch.compiler.disable`` directly above a ``def``: what ``staticmethod`` and the like make is no function."""
    line, decorator = function.lineno, "@torch.compiler.disable"
    changed, code = inserted(text, line - 1, decorator, like=line), _with_torch(tree, line - 1, decorator)
    if code != decorator:
        changed = inserted(changed, first_line(function) - 1, code.removesuffix(decorator), like=line)
    return Pasted(changed, code, f"above line {line}: {quoted(text, line)}")


def disable_call(text: str, line: int, operators: Sequence[str]) -> Pasted | None:
    """``torch.compiler.disable`` around the function that is called on a line.

    Args:
        text: The script.
        line: Its line, from 1 on.
        operators: aten packet names, such as ``aten.roll``. A call by such a name is meant, else the only call of torch there.

    Returns:
        None if there is no such call or more than one, or if the script does not bind the name ``torch`` to the package.
    """
    tree = ast.parse(text)
    names = imported(tree)
    meant = (
        _call_meant(tree, names, line, {_bare(operator) for operator in operators})
        if names.get("torch") == "torch"
        else None
    )
    if meant is None:
        return None
    called, function = text_at(text, meant), text_at(text, meant.func)
    if not called.startswith(function):  # in parentheses
        return None
    rest = called.removeprefix(function)
    if isinstance(meant.func, ast.Attribute) and not _is_of_torch(meant, names):
        tensor = text_at(text, meant.func.value)
        function = f"torch.Tensor.{meant.func.attr}"
        rest = rest.replace("(", f"({tensor}, " if meant.args or meant.keywords else f"({tensor}", 1)
    code = f"torch.compiler.disable({function}){rest}"
    return Pasted(with_text(text, meant, code), code, f"in line {line}: {quoted(text, line)}")


def _call_meant(tree: ast.Module, names: Mapping[str, str], line: int, operators: set[str]) -> ast.Call | None:
    """The only call on a line by the name of an operator, else the only one of torch; None if there is no such one."""
    calls = [n for n in ast.walk(tree) if isinstance(n, ast.Call) and n.lineno <= line <= (n.end_lineno or n.lineno)]
    calls = [call for call in calls if _may_run_in_eager(call, names)]
    for meant in (
        [call for call in calls if _bare(full_name(call.func, names)) in operators],
        [call for call in calls if _is_of_torch(call, names)],
    ):
        if meant:
            return meant[0] if len(meant) == 1 else None
    return None


def _may_run_in_eager(call: ast.Call, names: Mapping[str, str]) -> bool:
    """Whether it calls a function, or a method of what may be a tensor: no class, nothing that changes the state of torch."""
    name = full_name(call.func, names)
    if (
        name.startswith(("torch.compile", "torch.manual_seed", "torch.no_grad"))
        or name.rpartition(".")[2][:1].isupper()
    ):
        return False
    if _is_of_torch(call, names) or isinstance(call.func, ast.Name):
        return True
    receiver = call.func.value if isinstance(call.func, ast.Attribute) else call.func
    return not isinstance(receiver, ast.Constant) and not (
        isinstance(receiver, ast.Name) and (receiver.id in names or receiver.id == "self")
    )


def _is_of_torch(call: ast.Call, names: Mapping[str, str]) -> bool:
    return full_name(call.func, names).startswith("torch.")


def _bare(name: str) -> str:
    """The last part of a dotted name, without the underscore of what works in place."""
    return name.rpartition(".")[2].rstrip("_")


def disable_module(text: str, path: str) -> Pasted | None:
    """``torch.compiler.disable`` around one submodule of the compiled model; None if that is not bound to a name."""
    owner = _owner(ast.parse(text), path.split("."))
    if owner is None:
        return None
    statement, name, steps = owner
    target = _reached(name, steps)
    return _behind(text, statement, f"{target} = torch.compiler.disable({target})")


def disable_equal_modules(text: str, path: str) -> Pasted | None:
    """``torch.compiler.disable`` around the same submodule of every element of the innermost list in a path.

    None if the list cannot be reached from a name, or the path contains no list.
    """
    steps = path.split(".")
    places = [place for place, step in enumerate(steps) if step.isdigit()]
    owner = _owner(ast.parse(text), steps) if places and places[-1] > 0 else None
    if owner is None:
        return None
    statement, name, rest = owner
    before = len(rest) - (len(steps) - places[-1])
    if before < 0:
        return None
    listed, tail = _reached(name, rest[:before]), _reached("", rest[before + 1 :])
    target = f"equal{tail}" if tail else f"{listed}[place]"
    head = f"for equal in {listed}:" if tail else f"for place in range(len({listed})):"
    return _behind(text, statement, f"{head}\n    {target} = torch.compiler.disable({target})")


def _reached(name: str, steps: Sequence[str]) -> str:
    """The expression for a submodule, from a name."""
    return name + "".join(f"[{step}]" if step.isdigit() else f".{step}" for step in steps)


def _behind(text: str, statement: ast.stmt, code: str) -> Pasted:
    """Insert statements after another one."""
    last = statement.end_lineno or statement.lineno
    code = _with_torch(ast.parse(text), last, code)
    return Pasted(inserted(text, last, code, like=statement.lineno), code, f"behind line {last}: {quoted(text, last)}")


def diff(before: str, after: str, name: str) -> str:
    """The unified diff of a change to the script ``name``."""
    lines = unified_diff(before.splitlines(), after.splitlines(), f"a/{name}", f"b/{name}", lineterm="")
    return "\n".join(lines)


def other_backend(text: str, backend: str) -> Pasted | None:
    """Another backend at every ``torch.compile``; None if there is none, or one names a backend, mode or options."""
    tree = ast.parse(text)
    calls = [n for n in ast.walk(tree) if isinstance(n, ast.Call) and ast.unparse(n.func) == "torch.compile"]
    bare = [d for n in ast.walk(tree) if isinstance(n, ast.FunctionDef) for d in n.decorator_list]
    bare = [d for d in bare if ast.unparse(d) == "torch.compile"]
    if not (calls or bare) or any(k.arg in ("backend", "mode", "options", None) for c in calls for k in c.keywords):
        return None
    argument = f'backend="{backend}"'
    edits = [added_argument(text, call, argument) for call in calls]
    edits += [(span(text, name)[1], f"({argument})") for name in bare]
    for place, added in sorted(edits, reverse=True):
        text = text[:place] + added + text[place:]
    return Pasted(text, f"torch.compile(..., {argument})", "at every torch.compile of the script")


def added_argument(text: str, call: ast.Call, argument: str) -> tuple[int, str]:
    """The place in the text for one more argument of a call, and the argument with its comma.

    The last argument may be followed by closing parentheses, a comma, and comments.
    """
    start = max(span(text, part)[1] for part in (call.func, *call.args, *(k.value for k in call.keywords)))
    close = span(text, call)[1] - 1
    marks = [found for found in re.finditer(r"#[^\r\n]*|[(),]", text[start:close]) if found[0] in "(),"]
    if not marks:
        return start, f", {argument}"
    return start + marks[-1].end(), {"(": "", ",": " "}.get(marks[-1][0], ", ") + argument


def _owner(tree: ast.Module, path: list[str]) -> tuple[ast.stmt, str, list[str]] | None:
    """The statement after which a submodule is reachable, the name it is reached from, and the steps from there."""
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
    """The names that are passed to ``torch.compile``."""
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
    """The last line of the docstring and the imports; 0 without them."""
    last = 0
    for node in tree.body:
        is_docstring = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and last == 0
        if not (is_docstring or isinstance(node, ast.Import | ast.ImportFrom)):
            break
        last = node.end_lineno or node.lineno
    return last


def quoted(text: str, number: int) -> str:
    """A line for quoting, without a final colon, which would read as an announcement."""
    return lines_of(text)[number - 1].strip().removesuffix(":")[:100]


def _with_torch(tree: ast.Module, after: int, code: str) -> str:
    """The code with ``import torch`` before it, if the script does not bind that name above the place."""
    above = [s for s in tree.body if s.lineno <= after and not isinstance(s, ast.FunctionDef | ast.ClassDef)]
    imports = [n for s in above for n in ast.walk(s) if isinstance(n, ast.Import | ast.ImportFrom)]
    names = {alias.asname or alias.name.partition(".")[0] for n in imports for alias in n.names}
    is_missing = "torch." in code and "torch" not in names and not code.startswith("import torch")
    return f"import torch\n{code}" if is_missing else code


def inserted(text: str, after: int, code: str, *, like: int | None = None) -> str:
    """The text with statements inserted after a line, indented like the line ``like``."""
    lines = lines_of(text)
    model = lines[like - 1] if like else ""
    indent = model[: len(model) - len(model.lstrip())]
    if after and not lines[after - 1].endswith(("\n", "\r")):
        lines[after - 1] += "\n"
    return "".join([*lines[:after], *(f"{indent}{line}\n" for line in code.splitlines()), *lines[after:]])
