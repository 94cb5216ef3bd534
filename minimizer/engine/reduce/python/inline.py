"""Inlining: of variables and functions where they are used."""

from __future__ import annotations

import ast
import copy
from collections import Counter
from collections.abc import Iterator, Sequence

from minimizer.engine.reduce.python.rounds import is_name, renamed
from minimizer.engine.reduce.python.source import Edit, Source, number_of
from minimizer.engine.user_script.statements import assigned
from minimizer.engine.user_script.syntax import names_read, names_stored


def variables(source: Source) -> list[str]:
    """Names that are assigned exactly once in the whole script, alone or in a tuple: ``a, b = 1, 2``.

    Without names of a call's result that are read more than once: ``torch.compile(f)`` in three places is another
    program.
    """
    stored = names_stored(source.nodes())
    read = Counter(names_read(source.nodes()))
    bound = {n.arg for n in source.nodes() if isinstance(n, ast.arg)}
    values = [pair for node in source.nodes() for pair in assigned(node).items()]
    return [
        name
        for name, value in values
        if stored.count(name) == 1 and name not in bound and (read[name] < 2 or not _calls_something(value))
    ]


def with_inlined(source: Source, name: str) -> Source | None:
    """The script with a variable's value wherever it is used, and without its assignment."""
    assignment = next((n for n in source.nodes() if name in assigned(n)), None)
    if not isinstance(assignment, ast.Assign):
        return None
    value, rest = assigned(assignment)[name], _without(assignment, name)
    uses = [n for n in source.nodes() if isinstance(n, ast.Name) and n.id == name and isinstance(n.ctx, ast.Load)]
    edits: dict[int, Edit] = {number_of(use): lambda _: copy.deepcopy(value) for use in uses}
    edits[number_of(assignment)] = lambda _: rest if uses or rest else ast.Expr(value)
    return source.edited(edits)


def without_names(source: Source) -> Iterator[Source | None]:
    """The scripts with one assignment to names that are never read, or to none, or addition to such a name, replaced by its value."""
    read = set(names_read(source.nodes()))
    for node in source.nodes():
        if isinstance(node, ast.Assign | ast.AugAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            names = {n.id for t in targets for n in ast.walk(t) if isinstance(n, ast.Name)}
            is_plain = all(
                isinstance(n, ast.Name | ast.Tuple | ast.List | ast.expr_context) for t in targets for n in ast.walk(t)
            )
            if (names or is_plain) and not names & read:
                yield source.edited({number_of(node): lambda node: ast.Expr(node.value)})  # type: ignore[attr-defined]


def called_once(source: Source) -> list[str]:
    """Functions with plain parameters whose name is used exactly once."""
    uses = names_read(source.nodes())
    return [
        node.name
        for node in source.nodes()
        if isinstance(node, ast.FunctionDef) and uses.count(node.name) == 1 and _is_spliceable(node)
    ]


def spliced(source: Source, name: str) -> Source | None:
    """The script with the body of a function in place of its only call; None if it cannot be."""
    function = next((n for n in source.nodes() if isinstance(n, ast.FunctionDef) and n.name == name), None)
    call = next((n for n in source.nodes() if isinstance(n, ast.Call) and is_name(n.func, name)), None)
    if function is None or call is None:
        return None
    parameters = [a.arg for a in function.args.args]
    if len(call.args) != len(parameters) or call.keywords or any(isinstance(a, ast.Starred) for a in call.args):
        return None
    call_site = next((s for s in source.statements if call_of(s) is call), None)
    if call_site is None:
        return _in_expression(source, function, call)
    given = [
        ast.Assign(targets=[ast.Name(parameter, ast.Store())], value=argument)
        for parameter, argument in zip(parameters, call.args, strict=True)
        if not (isinstance(argument, ast.Name) and argument.id == parameter)
    ]
    outer = [n for n in function.body if not isinstance(n, ast.Global)]
    if len(outer) < len(function.body) and call_site not in source.tree.body:
        return None
    body = in_place_of(call_site, outer or [ast.Pass()])
    if body is None:
        return None
    return source.edited({number_of(call_site): lambda _: [*given, *body], number_of(function): lambda _: None})


def call_of(statement: ast.stmt) -> ast.Call | None:
    """The call that a statement consists of: ``f(x)``, ``y = f(x)``, ``return f(x)``."""
    value = statement.value if isinstance(statement, ast.Expr | ast.Assign | ast.Return) else None
    return value if isinstance(value, ast.Call) else None


def in_place_of(statement: ast.stmt, body: Sequence[ast.stmt]) -> list[ast.stmt] | None:
    """The body of a function in place of a statement that calls it; None if the statement needs a value and gets none."""
    *before, last = body
    if isinstance(last, ast.Return):
        changed = copy.copy(statement)
        changed.value = last.value or ast.Constant(None)  # type: ignore[attr-defined]
        return [*before, changed]
    return [*body] if isinstance(statement, ast.Expr) else None


def _in_expression(source: Source, function: ast.FunctionDef, call: ast.Call) -> Source | None:
    """The script with a function's only returned value in place of its call, inside any expression."""
    value = function.body[0].value if isinstance(function.body[0], ast.Return) else None
    if value is None:
        return None
    given = dict(zip((a.arg for a in function.args.args), call.args, strict=True))
    return source.edited({number_of(call): lambda _: renamed(value, given), number_of(function): lambda _: None})


def one_expression(source: Source) -> list[str]:
    """Nested functions whose body is a single expression."""
    inner = [
        n for outer in source.tree.body for n in ast.walk(outer) if n is not outer and isinstance(n, ast.FunctionDef)
    ]
    return [node.name for node in inner if as_lambda(node) is not None]


def with_lambda(source: Source, name: str) -> Source | None:
    """The script with a function of one expression as a ``lambda``, if its only use is not a call; else None."""
    use = only_use(source, name)
    functions = [n for n in source.nodes() if isinstance(n, ast.FunctionDef) and n.name == name]
    function = as_lambda(functions[0]) if len(functions) == 1 else None
    simple = [s for s in source.statements if isinstance(s, ast.Assign | ast.Expr | ast.Return)]
    if use is None or function is None or not any(n is use for s in simple for n in ast.walk(s)):
        return None
    return source.edited({number_of(use): lambda _: copy.deepcopy(function), number_of(functions[0]): lambda _: None})


def only_use(source: Source, name: str) -> ast.Name | None:
    """The only use of a function's name; None if there are others, or if it is a call."""
    named = [n for n in source.nodes() if isinstance(n, ast.Name) and n.id == name]
    is_called = any(isinstance(n, ast.Call) and n.func in named for n in source.nodes())
    return named[0] if len(named) == 1 and not is_called else None


def _calls_something(value: ast.expr) -> bool:
    return any(isinstance(node, ast.Call) for node in ast.walk(value))


def _without(assignment: ast.Assign, name: str) -> ast.Assign | None:
    """An assignment without this name; None if nothing of it is left."""
    target, value = assignment.targets[0], assignment.value
    if not isinstance(target, ast.Tuple) or not isinstance(value, ast.Tuple):
        return None
    pairs = zip(target.elts, value.elts, strict=True)
    kept = [pair for pair in pairs if not (isinstance(pair[0], ast.Name) and pair[0].id == name)]
    if len(kept) == 1:
        return ast.Assign(targets=[kept[0][0]], value=kept[0][1])
    targets, values = map(list, zip(*kept, strict=True))
    return ast.Assign(targets=[ast.Tuple(targets, ast.Store())], value=ast.Tuple(values, ast.Load()))


def as_lambda(function: ast.FunctionDef) -> ast.Lambda | None:
    """A function as a ``lambda``; None unless its body is a single plain expression."""
    first, *rest = function.body
    if rest or function.decorator_list or not isinstance(first, ast.Return | ast.Pass):
        return None
    value = getattr(first, "value", None) or ast.Constant(None)
    if any(isinstance(n, ast.Yield | ast.YieldFrom | ast.Await | ast.NamedExpr) for n in ast.walk(value)):
        return None
    parameters = copy.deepcopy(function.args)
    for parameter in ast.walk(parameters):
        if isinstance(parameter, ast.arg):
            parameter.annotation = None
    return ast.Lambda(parameters, copy.deepcopy(value))


def _is_spliceable(function: ast.FunctionDef) -> bool:
    arguments = function.args
    extras = (arguments.posonlyargs, arguments.kwonlyargs, arguments.defaults, arguments.vararg, arguments.kwarg)
    if any(extras) or function.decorator_list:
        return False
    inner = [n for s in function.body[:-1] if not isinstance(s, ast.Global) for n in ast.walk(s)]
    return not any(isinstance(n, ast.Return | ast.Yield | ast.YieldFrom | ast.Global | ast.Nonlocal) for n in inner)
