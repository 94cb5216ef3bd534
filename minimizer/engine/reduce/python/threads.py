"""Passes that move the work of threads and pools to calls in the main thread.

The thread seldom matters to a fault. But objects used in a thread have no name at the end of the script, and a script
that has lost one side of a queue waits for ever. A fault that needs the threads keeps them: the oracle has to confirm
each candidate.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator

from minimizer.engine.reduce.problem import Problem
from minimizer.engine.reduce.python.rounds import is_name
from minimizer.engine.reduce.python.source import Edit, Replacement, Source, number_of
from minimizer.engine.user_script.statements import bound_name
from minimizer.engine.user_script.syntax import full_name, imported

THREAD, POOL = "threading.Thread", "ThreadPoolExecutor"
PARAMETERS = ("group", "target", "name", "args", "kwargs")
"""The parameters of a thread, in their order."""


def calls(problem: Problem[Source]) -> None:
    """Write each thread, and each task submitted to a pool, as a call, until no such edit is accepted."""
    problem.exhaust(_as_calls, "threads")


def _as_calls(source: Source) -> Iterator[Source | None]:
    names = imported(source.tree)
    pools = _pools(source, names)
    if pools:
        yield _without_pools(source, pools)
    for node in source.nodes():
        call = _call_of(node, names)
        if call is not None:
            yield from _without_thread(source, node, call)


# threads -----------------------------------------------------------------------------------------------------------------


def _call_of(node: ast.AST, names: dict[str, str]) -> ast.Call | None:
    """The call that a thread makes, if ``node`` creates the thread and spells the arguments out; else None."""
    if not isinstance(node, ast.Call) or full_name(node.func, names) != THREAD:
        return None
    given = dict(zip(PARAMETERS, node.args, strict=False)) | {k.arg: k.value for k in node.keywords if k.arg}
    arguments, named = given.get("args", ast.Tuple([], ast.Load())), given.get("kwargs", ast.Dict([], []))
    if "target" not in given or not isinstance(arguments, ast.Tuple | ast.List) or not isinstance(named, ast.Dict):
        return None
    words = [key.value for key in named.keys if isinstance(key, ast.Constant) and isinstance(key.value, str)]
    if len(words) < len(named.keys):
        return None
    keywords = [ast.keyword(word, value) for word, value in zip(words, named.values, strict=True)]
    return ast.Call(given["target"], arguments.elts, keywords)


def _without_thread(source: Source, made: ast.AST, call: ast.Call) -> Iterator[Source | None]:
    """With a call in place of a thread that is started on creation, is named, or is in a list."""
    for node in source.nodes():
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.value is made:
            yield source.edited({number_of(node): lambda _: call})
        name = bound_name(node)
        if not isinstance(node, ast.Assign) or name is None:
            continue
        if node.value is made:
            yield from _at_its_end_or_start(source, node, name, call)
        elif isinstance(node.value, ast.ListComp) and node.value.elt is made:
            yield _in_a_loop(source, node, name, node.value.generators, call)


def _at_its_end_or_start(source: Source, made: ast.Assign, name: str, call: ast.Call) -> Iterator[Source | None]:
    """With the call where the thread is joined, then where it is started: it may wait for something in between."""
    ended, begun = (_calls_of(source.statements, name, method) for method in ("join", "start"))
    gone: dict[int, Edit] = {number_of(one): lambda _: None for one in (made, *begun, *ended)}
    for places in (ended, begun):
        if places:
            yield source.edited(gone | {number_of(places[-1]): lambda _: ast.Expr(call)})


def _in_a_loop(
    source: Source, made: ast.Assign, name: str, rounds: list[ast.comprehension], call: ast.Call
) -> Source | None:
    """With ``for i in items: f(i)`` in place of a list of threads, and of the loops that start and join them."""
    waiting = [
        s
        for s in source.statements
        if isinstance(s, ast.For)
        and is_name(s.iter, name)
        and isinstance(s.target, ast.Name)
        and len(_calls_of(s.body, s.target.id, "start", "join")) == len(s.body)
    ]
    if len(rounds) > 1 or rounds[0].ifs:
        return None
    gone: dict[int, Edit] = {number_of(one): lambda _: None for one in waiting}
    calling = ast.For(rounds[0].target, rounds[0].iter, [ast.Expr(call)], [])
    return source.edited(gone | {number_of(made): lambda _: calling})


def _calls_of(statements: Collection[ast.stmt], name: str, *methods: str) -> list[ast.stmt]:
    """Statements that call one of these methods of the object with this name."""
    return [s for s in statements if isinstance(s, ast.Expr) and _method(s.value, {name}) in methods]


def _method(node: ast.AST, names: Collection[str]) -> str:
    """The called method of an object with one of these names; empty for other nodes."""
    called = node.func if isinstance(node, ast.Call) else None
    is_named = isinstance(called, ast.Attribute) and isinstance(called.value, ast.Name) and called.value.id in names
    return called.attr if is_named and isinstance(called, ast.Attribute) else ""


# pools -------------------------------------------------------------------------------------------------------------------


def _pools(source: Source, names: dict[str, str]) -> dict[str, ast.AST]:
    """The node that binds the name of each thread pool: an assignment, or an item of a ``with``."""
    found: dict[str, ast.AST] = {}
    for node in source.nodes():
        value, target = None, None
        if isinstance(node, ast.Assign) and len(node.targets) == 1:
            value, target = node.value, node.targets[0]
        elif isinstance(node, ast.withitem):
            value, target = node.context_expr, node.optional_vars
        is_pool = isinstance(value, ast.Call) and full_name(value.func, names).endswith(POOL)
        if is_pool and isinstance(target, ast.Name):
            found[target.id] = node
    return found


def _without_pools(source: Source, pools: dict[str, ast.AST]) -> Source | None:
    """With ``f(x)`` for ``pool.submit(f, x)`` and for its result, and ``map`` for ``pool.map``."""
    edits: dict[int, Edit] = {number_of(one): lambda _: None for one in pools.values()}
    for node in source.nodes():
        if isinstance(node, ast.Expr) and _method(node.value, pools) == "shutdown":
            edits[number_of(node)] = lambda _: None
        elif isinstance(node, ast.Expr) and _method(node.value, pools) == "map":
            edits[number_of(node)] = _of_all
        elif _method(node, pools) == "submit":
            edits[number_of(node)] = _now
        elif _method(node, pools) == "map":
            edits[number_of(node)] = _mapped
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "result":
            edits[number_of(node)] = _result
    return source.edited(edits)


def _now(submit: ast.AST) -> Replacement:
    assert isinstance(submit, ast.Call)
    return ast.Call(submit.args[0], submit.args[1:], submit.keywords) if submit.args else submit


def _mapped(call: ast.AST) -> ast.expr:
    assert isinstance(call, ast.Call)
    return ast.Call(ast.Name("map", ast.Load()), call.args, [])


def _of_all(statement: ast.AST) -> Replacement:
    assert isinstance(statement, ast.Expr)
    return ast.Expr(ast.List([ast.Starred(_mapped(statement.value), ast.Load())], ast.Load()))


def _result(call: ast.AST) -> Replacement:
    """The result of a future, which is the submitted call."""
    assert isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute)
    held = call.func.value
    is_submitted = isinstance(held, ast.Call) and isinstance(held.func, ast.Attribute) and held.func.attr == "submit"
    return _now(held) if is_submitted else held
