"""What the user can do about a fault between graphs, tried on the user's own script by exact runs."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from minimizer.engine.between.difference import first_difference
from minimizer.engine.between.exact_runs import ExactRuns, Found
from minimizer.engine.diagnose.paste import Pasted, diff, disable_function, paste
from minimizer.engine.diagnose.workaround import NONE, Change, Tried, first_that_helps
from minimizer.engine.user_script.statements import lines_of
from minimizer.report.model import Mechanism, Workaround

CONFIG = "torch._dynamo.config"
SETTINGS: dict[Mechanism, tuple[str, ...]] = {
    "missed_hook": (f"{CONFIG}.skip_nnmodule_hook_guards = False",),
    "stale_guard": (f"{CONFIG}.guard_nn_modules = True", f"{CONFIG}.inline_inbuilt_nn_modules = True"),
    "wrong_constant": (f"{CONFIG}.assume_static_by_default = True\n{CONFIG}.automatic_dynamic_shapes = False",),
}
DISABLE = "@torch.compiler.disable"
RESET = "torch._dynamo.reset()"
HELPER = "in_eager"


def find_workaround(
    runs: ExactRuns, text: str, found: Found, mechanism: Mechanism, line: int | None, *, script: str | None
) -> Workaround:
    """The first change with which the script sees the same with the compiler and without.

    ``script``: the name of the user's file; None where the text is not what stands in it, so that a diff would be of no use.
    """

    def try_(changed: str) -> Tried:
        logs = runs.both(changed)
        if logs is None or first_difference(*logs, found.noise.without_moments()) is not None:
            return Tried(passes=False)
        return Tried(passes=True, frames=sum(look.compiled for look in logs[1].looks))

    helped = first_that_helps(_changes(text, mechanism, line, found.difference.look.line), try_)
    if helped is None:
        return Workaround(code="", verified=False, what=NONE)
    pasted = helped.pasted
    as_diff = diff(text, pasted.text, script) if script is not None else ""
    return Workaround(code=pasted.code, verified=True, where=pasted.where, diff=as_diff, what=helped.what)


def _changes(text: str, mechanism: Mechanism, line: int | None, call: int) -> Iterator[Change]:
    """What may help, the cheapest first. ``line`` is at fault, ``call`` the line of the call that shows it."""
    for setting in SETTINGS.get(mechanism, ()):
        yield Change(paste(text, setting), "a setting that holds for all that is compiled")
    if line is None:
        return
    if (one := moved_out(text, line)) is not None:
        yield Change(one, "the graph breaks there, and what is lost or stale runs in eager")
    if (one := disable_function(text, line)) is not None:
        yield Change(one, "one function runs in eager")
    if mechanism == "stale_guard" and (one := forgotten_before(text, call)) is not None:
        yield Change(one, "everything is compiled anew each time that this line is reached")
    if (one := not_compiled(text, line)) is not None:
        yield Change(one, "this function is not compiled")


def moved_out(text: str, line: int) -> Pasted | None:
    """With a statement, or what a branch tests, in a function of its own that is never compiled; None where that cannot be."""
    tree = ast.parse(text)
    function = _around(tree, line)
    statement = next((s for s in ast.walk(tree) if isinstance(s, ast.stmt) and s.lineno == line), None)
    if function is None or statement is None or function is statement:
        return None
    moved: ast.stmt | ast.expr = statement
    if isinstance(statement, ast.If):
        moved = statement.test
    elif not isinstance(statement, ast.Expr | ast.AugAssign) or isinstance(
        getattr(statement, "target", None), ast.Name
    ):
        return None
    if moved.lineno != moved.end_lineno or any(
        isinstance(n, ast.Await | ast.Yield | ast.YieldFrom) for n in ast.walk(moved)
    ):
        return None
    own = {n.arg for n in ast.walk(function) if isinstance(n, ast.arg)}
    own |= {n.id for n in ast.walk(function) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    needed = sorted({n.id for n in ast.walk(moved) if isinstance(n, ast.Name)} & own)
    call = f"{HELPER}({', '.join(needed)})"
    doing = f"return {ast.unparse(moved)}" if isinstance(moved, ast.expr) else ast.unparse(moved)
    helper = [DISABLE, f"def {HELPER}({', '.join(needed)}):", f"    {doing}"]
    lines = lines_of(text)
    row = lines[line - 1]
    before, after = row[: len(row) - len(row.lstrip())], "\n"
    if isinstance(moved, ast.expr):
        start, end = len(row.encode()[: moved.col_offset].decode()), len(row.encode()[: moved.end_col_offset].decode())
        before, after = row[:start], row[end:]
    lines[line - 1] = f"{before}{call}{after}"
    top = next(s for s in tree.body if s.lineno <= line <= (s.end_lineno or s.lineno))
    first = min([top.lineno, *(d.lineno for d in getattr(top, "decorator_list", ()))])
    lines[first - 1 : first - 1] = [*(f"{part}\n" for part in helper), "\n", "\n"]
    code = "\n".join([*helper, f"...  {call}"])
    return Pasted("".join(lines), code, f"in line {line}, in place of: {row.strip()[:100]}")


def not_compiled(text: str, line: int) -> Pasted | None:
    """``@torch.compiler.disable`` on the function around a line, above its other decorators: ``torch.compile`` undoes one below it."""
    function = _around(ast.parse(text), line)
    if function is None:
        return None
    lines = lines_of(text)
    row = lines[function.lineno - 1]
    indent = row[: len(row) - len(row.lstrip())]
    first = min([function.lineno, *(d.lineno for d in function.decorator_list)])
    lines.insert(first - 1, f"{indent}{DISABLE}\n")
    return Pasted("".join(lines), DISABLE, f"above line {first}, on {row.strip().removesuffix(':')[:100]}")


def forgotten_before(text: str, line: int) -> Pasted | None:
    """With ``torch._dynamo.reset()`` before the statement in which a call uses stale code; None where no statement begins there."""
    statement = next((s for s in ast.walk(ast.parse(text)) if isinstance(s, ast.stmt) and s.lineno == line), None)
    if statement is None:
        return None
    lines = lines_of(text)
    row = lines[line - 1]
    if row[: statement.col_offset].strip():
        return None
    lines.insert(line - 1, f"{row[: statement.col_offset]}{RESET}\n")
    return Pasted("".join(lines), RESET, f"before line {line}: {row.strip()[:100]}")


def _around(tree: ast.Module, line: int) -> ast.FunctionDef | None:
    """The innermost function around a line."""
    around = [n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef) and n.lineno <= line <= (n.end_lineno or 0)]
    return max(around, key=lambda n: n.lineno, default=None)
