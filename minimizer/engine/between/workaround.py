"""Finds a workaround for a fault between graphs, tried on the user's own script by exact runs."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from minimizer.engine.between.answer import Found
from minimizer.engine.between.exact_runs import ExactRuns
from minimizer.engine.diagnose.paste import Pasted, diff, disable_function, function_around, inserted, paste, quoted
from minimizer.engine.diagnose.workaround import NONE, Change, Tried, first_that_helps
from minimizer.engine.user_script.bundle import Bundle
from minimizer.engine.user_script.statements import first_line, lines_of, with_text
from minimizer.engine.user_script.syntax import decorators, full_name, imported, names_stored
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
READS = (ast.Attribute, ast.Subscript, ast.Call, ast.Compare, ast.IfExp, ast.BinOp)
"""Expressions that may read stale state; a name or a constant cannot."""
ENTRY = "torch.compile"


def find_workaround(
    runs: ExactRuns, text: str, found: Found, mechanism: Mechanism, line: int | None, whole: Bundle, *, script: Path
) -> Workaround:
    """The first change with which the script sees the same with the compiler and without.

    ``text`` is what runs, ``whole`` maps its lines to the user's. There is a diff only if it differs from the user's
    file, ``script``, in nothing but its arguments.
    """

    def try_(changed: str) -> Tried:
        log = runs.agreeing(changed, found)
        if log is None:
            return Tried(passes=False)
        return Tried(passes=True, frames=sum(look.compiled for look in log.looks))

    look = found.difference.look
    helped = first_that_helps(_changes(text, mechanism, line, 0 if look.file else look.line), try_)
    if helped is None:
        return Workaround(code="", verified=False, what=NONE)
    pasted = helped.pasted
    before, after = (one.replace(whole.arguments, "", 1) for one in (text, pasted.text))
    as_diff = diff(before, after, script.name) if before == script.read_text("utf-8-sig") else ""
    where = in_the_users_files(pasted.where, whole, script.name)
    return Workaround(code=pasted.code, verified=True, where=where, diff=as_diff, what=helped.what)


def in_the_users_files(where: str, whole: Bundle, script: str) -> str:
    """The place of a change, with the user's line number in place of that in the run text, and the file if it is
    another.
    """

    def users(match: re.Match[str]) -> str:
        file, number, _ = whole.lines.get(int(match[1]), ("", 0, ""))
        return "a line" if not file else f"line {number}{'' if file == script else f' of {file}'}"

    return re.sub(r"\bline (\d+)", users, where, count=1)


def _changes(text: str, mechanism: Mechanism, line: int | None, call: int) -> Iterator[Change]:
    """Changes that may help, the cheapest first. ``line`` is at fault, the call in line ``call`` shows it."""
    for setting in SETTINGS.get(mechanism, ()):
        yield Change(paste(text, setting), "a setting that holds for all that is compiled")
    if line is not None and (one := moved_out(text, line)) is not None:
        yield Change(one, "the graph breaks there, and what is lost or stale runs in eager")
    if line is not None and (one := disable_function(text, line)) is not None:
        yield Change(one, "one function runs in eager")
    if mechanism == "stale_guard" and (one := forgotten_before(text, call)) is not None:
        yield Change(one, "everything is compiled anew each time that this line is reached")
    if line is not None and (one := not_compiled(text, line)) is not None:
        yield Change(one, "this function is not compiled")
    for one in entries_left_out(text):
        yield Change(one, "this entry to the compiler is left out")


def moved_out(text: str, line: int) -> Pasted | None:
    """With a statement, its value, or a branch's test in a function that is never compiled; None if it cannot move."""
    tree = ast.parse(text)
    function = function_around(tree, line)
    statement = next((s for s in ast.walk(tree) if isinstance(s, ast.stmt) and s.lineno == line), None)
    if function is None or statement is None or function is statement:
        return None
    moved = _movable(statement)
    if moved is None or (isinstance(statement, ast.Return) and function.body == [statement]):
        return None  # nothing would be left to compile
    if moved.lineno != moved.end_lineno or any(
        isinstance(n, ast.Await | ast.Yield | ast.YieldFrom) for n in ast.walk(moved)
    ):
        return None
    own = {n.arg for n in ast.walk(function) if isinstance(n, ast.arg)}
    own |= set(names_stored(ast.walk(function)))
    needed = sorted({n.id for n in ast.walk(moved) if isinstance(n, ast.Name)} & own)
    call = f"{HELPER}({', '.join(needed)})"
    doing = f"return {ast.unparse(moved)}" if isinstance(moved, ast.expr) else ast.unparse(moved)
    helper = [DISABLE, f"def {HELPER}({', '.join(needed)}):", f"    {doing}"]
    lines = lines_of(with_text(text, moved, call))
    top = next(s for s in tree.body if s.lineno <= line <= (s.end_lineno or s.lineno))
    first = first_line(top)
    lines[first - 1 : first - 1] = [*(f"{part}\n" for part in helper), "\n", "\n"]
    code = "\n".join([*helper, f"...  {call}"])
    return Pasted("".join(lines), code, f"in line {line}, in place of: {lines_of(text)[line - 1].strip()[:100]}")


def _movable(statement: ast.stmt) -> ast.stmt | ast.expr | None:
    """The part of a statement that can move to another function: all of it, or its value if it binds a local name."""
    if isinstance(statement, ast.If):
        return statement.test
    if isinstance(statement, ast.Expr):
        return statement
    if isinstance(statement, ast.Assign | ast.AugAssign):
        targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
        if not any(isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store) for t in targets for n in ast.walk(t)):
            return statement
    if isinstance(statement, ast.Assign | ast.Return) and isinstance(statement.value, READS):
        return statement.value
    return None


def not_compiled(text: str, line: int) -> Pasted | None:
    """With ``@torch.compiler.disable`` above the function around a line: ``torch.compile`` above it would undo that."""
    function = function_around(ast.parse(text), line)
    if function is None:
        return None
    first = first_line(function)
    where = f"above line {first}, on {quoted(text, function.lineno)}"
    return Pasted(inserted(text, first - 1, DISABLE, like=function.lineno), DISABLE, where)


def entries_left_out(text: str) -> Iterator[Pasted]:
    """Without one of the script's entries to the compiler: the last resort, if no change to the compiled code helps.

    ``fullgraph=True`` allows no function in eager, and ``torch.compile(f)`` undoes ``@torch.compiler.disable`` on
    ``f``.
    """
    tree = ast.parse(text)
    names = imported(tree)
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef):
            if any(name == ENTRY for name, _ in decorators(node, names)):
                one = not_compiled(text, node.lineno)
                if one is not None:
                    yield one
        elif isinstance(node, ast.Call) and full_name(node.func, names) == ENTRY and node.args:
            yield from _replaced(text, node, node.args[0])


def _replaced(text: str, old: ast.expr, new: ast.expr) -> Iterator[Pasted]:
    """With an expression in place of the one that contains it; yields nothing if that spans several lines."""
    said = ast.get_source_segment(text, new)
    if said is None or old.lineno != old.end_lineno:
        return
    changed = with_text(text, old, said)
    before, after = (lines_of(one)[old.lineno - 1].strip() for one in (text, changed))
    yield Pasted(changed, after, f"in line {old.lineno}, in place of: {before[:100]}")


def forgotten_before(text: str, line: int) -> Pasted | None:
    """With ``torch._dynamo.reset()`` before the statement that calls stale code; None if none begins there."""
    statement = next((s for s in ast.walk(ast.parse(text)) if isinstance(s, ast.stmt) and s.lineno == line), None)
    if statement is None:
        return None
    row = lines_of(text)[line - 1]
    if row[: statement.col_offset].strip():
        return None
    return Pasted(inserted(text, line - 1, RESET, like=line), RESET, f"before line {line} ({row.strip()[:100]})")
