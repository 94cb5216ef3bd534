"""Forms of a script whose end shows what is wrong: by a name for the result of a call, by an exit, by an assertion."""

from __future__ import annotations

import ast
import builtins
import textwrap
from collections.abc import Iterator, Sequence

from minimizer.engine.between.assertion import OUT, OUTS, Claim
from minimizer.engine.reduce.python.source import BODIES
from minimizer.engine.user_script.syntax import DECLARATIONS

MOST_CALLS = 3
"""Most calls of a last statement whose results are tried for an assertion."""
CANNOT_RUN = "except Exception:\n    raise SystemExit(125)  # it cannot run here\n"


def ways_to_show(text: str) -> Iterator[str]:
    """The script with a name for an unnamed result of its last statement; then the script as it is; last, lists of
    those results.

    If a function of the script that the last statement calls itself ends with a call, that call's result is returned.
    Results from the threads of a pool come as an iterator. Results of a call that no statement of the script reaches,
    as in a thread, are collected in a list.
    """
    returning = _returning(text)
    calls = range(len(_last_calls(ast.parse(returning))))
    yield from (_named(returning, number) for number in calls)
    yield ast.unparse(ast.parse(text)) + "\n"
    yield from (_named(returning, number, of_items=True) for number in calls)
    yield from _collected(text)


def _named(text: str, number: int, *, of_items: bool = False) -> str:
    """The script with a name for the result of one call of its last statement, or for a list of it."""
    tree = ast.parse(text)
    body, call = _last_calls(tree)[number]
    value = ast.Call(func=ast.Name(id="list", ctx=ast.Load()), args=[call], keywords=[]) if of_items else call
    body[-1] = ast.Assign(targets=[ast.Name(id=OUT, ctx=ast.Store())], value=value)
    return ast.unparse(ast.fix_missing_locations(tree)) + "\n"


def _collected(text: str) -> Iterator[str]:
    """The script with a list of a call's results inside a function, for its last calls whose results are not used
    outside.
    """
    whole = ast.parse(text)
    has_name = any(isinstance(node, ast.Name) and node.id == OUTS for node in ast.walk(whole))
    places = 0 if has_name else len(_inner_calls(whole))
    for number in range(max(0, places - MOST_CALLS), places)[::-1]:
        tree = ast.parse(text)
        block, place = _inner_calls(tree)[number]
        statement = block[place]
        assert isinstance(statement, ast.Expr | ast.Assign)
        keep = ast.Attribute(value=ast.Name(id=OUTS, ctx=ast.Load()), attr="append", ctx=ast.Load())
        if isinstance(statement, ast.Expr):
            statement.value = ast.Call(func=keep, args=[statement.value], keywords=[])
        else:
            name = ast.unparse(statement.targets[0])
            block.insert(place + 1, ast.Expr(ast.Call(func=keep, args=[ast.Name(name, ast.Load())], keywords=[])))
        first = next(i for i, s in enumerate(tree.body) if not isinstance(s, ast.Import | ast.ImportFrom))
        tree.body.insert(
            first, ast.Assign(targets=[ast.Name(id=OUTS, ctx=ast.Store())], value=ast.List([], ast.Load()))
        )
        yield ast.unparse(ast.fix_missing_locations(tree)) + "\n"


def _inner_calls(tree: ast.Module) -> list[tuple[list[ast.stmt], int]]:
    """Statements in functions that are a call, or assign its result to a single name; each as its block and its index
    in it.
    """
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    blocks = [getattr(n, part, []) for one in functions for n in ast.walk(one) for part in BODIES]
    found = [(block, place) for block in blocks if isinstance(block, list) for place in range(len(block))]
    return [
        (block, place)
        for block, place in {id(block[place]): (block, place) for block, place in found}.values()
        if isinstance(statement := block[place], ast.Expr | ast.Assign)
        and isinstance(statement.value, ast.Call)
        and ast.unparse(statement.value.func) != "print"
        and (isinstance(statement, ast.Expr) or [type(one) for one in statement.targets] == [ast.Name])
    ]


def _returning(text: str) -> str:
    """The script whose last statement's functions return the result of their last call, if they return nothing."""
    tree = ast.parse(text)
    called = {call.func.id for _, call in _last_calls(tree) if isinstance(call.func, ast.Name)}
    for node in tree.body:
        if not isinstance(node, ast.FunctionDef) or node.name not in called:
            continue
        last, returns = node.body[-1], (ast.Return, ast.Yield, ast.YieldFrom)
        if not isinstance(last, ast.Expr) or not isinstance(last.value, ast.Call):
            continue
        if not any(isinstance(inner, returns) for inner in ast.walk(node)):
            node.body[-1] = ast.Return(value=last.value)
    return ast.unparse(ast.fix_missing_locations(tree)) + "\n"


def _last_calls(tree: ast.Module) -> list[tuple[list[ast.stmt], ast.Call]]:
    """Calls in the last statement with unnamed results, the outermost first, each with the block that the statement
    ends.
    """
    body, blocks = tree.body, list[tuple[list[ast.stmt], ast.expr]]()
    while body and isinstance(body[-1], ast.For | ast.While | ast.With | ast.Try):
        if isinstance(body[-1], ast.For):
            blocks.append((body, body[-1].iter))
        body = body[-1].body
    if body and isinstance(body[-1], ast.Expr):
        blocks.insert(0, (body, body[-1].value))
    calls = [(block, node) for block, value in blocks for node in ast.walk(value) if isinstance(node, ast.Call)]
    return [(block, call) for block, call in calls if ast.unparse(call.func) != "print"][:MOST_CALLS]


def raising(text: str, eager: str, compiled: str) -> str | None:
    """The script whose last ``try`` catches what only one side raises, as one that ends by it; None if that ``try`` is
    not its last statement, or has no handler.

    If only the compiled side raises, and no ``try`` of the script catches it, the last statement gets a handler.
    ``eager`` and ``compiled`` are the exceptions that a call raises, empty for none.
    """
    tree = ast.parse(text)
    if compiled and not eager and not any(isinstance(node, ast.Try) for node in ast.walk(tree.body[-1])):
        tree.body[-1] = _catching(tree.body[-1])
    body = tree.body
    while body and isinstance(body[-1], ast.For | ast.While | ast.With):
        body = body[-1].body
    last = body[-1] if body else None
    if not isinstance(last, ast.Try) or not last.handlers:
        return None
    handler = last.handlers[0]
    named = eager or compiled
    if isinstance(getattr(builtins, named, None), type):
        handler.type = ast.Name(id=named, ctx=ast.Load())
    handler.name, handler.body, last.orelse = None, [ast.Pass()], []
    words = f"expected {eager or 'no error'}, actual {compiled or 'no error'}"
    said = ast.parse(f"raise SystemExit({words!r})").body
    if compiled:
        handler.body = said
    else:
        last.orelse = said
    last.handlers, last.finalbody = [handler], []
    return guarded(ast.unparse(ast.fix_missing_locations(tree)))


def _catching(statement: ast.stmt) -> ast.Try:
    """A statement within a ``try`` whose handler does nothing."""
    handler = ast.ExceptHandler(type=ast.Name(id="Exception", ctx=ast.Load()), name=None, body=[ast.Pass()])
    return ast.Try(body=[statement], handlers=[handler], orelse=[], finalbody=[])


def asserted(text: str, claim: Claim) -> str:
    """The script with a claim at its end; statements before it, except definitions, may fail for reasons of the
    machine.
    """
    return f"{guarded(text)}{claim.statement}\n"


def guarded(text: str) -> str:
    """The script, which exits with 125 if its statements, apart from definitions, cannot run here."""
    given = ast.parse(text).body
    body = sorted(
        given,
        key=lambda s: 0 if isinstance(s, ast.Import | ast.ImportFrom) else 1 if _may_stand_first(s, given) else 2,
    )
    defined = 1 + max((i for i, s in enumerate(body) if isinstance(s, DECLARATIONS)), default=-1)
    first = next((i for i, s in enumerate(body[:defined]) if not isinstance(s, (*DECLARATIONS, ast.Assign))), defined)
    before, doing = body[:first], body[first:]
    if not doing:
        return _lines(before)
    last, handlers, otherwise = doing[-1], "", ""
    if isinstance(last, ast.Try) and not last.finalbody:  # one ``try`` serves both
        doing = [*doing[:-1], *last.body]
        handlers = "".join(f"{ast.unparse(handler).lstrip()}\n" for handler in last.handlers)
        otherwise = f"else:\n{_lines(last.orelse, indent=4)}" if last.orelse else ""
    return f"{_lines(before)}try:\n{_lines(doing, indent=4)}{handlers}{CANNOT_RUN}{otherwise}"


def _may_stand_first(statement: ast.stmt, body: Sequence[ast.stmt]) -> bool:
    """Whether a definition may move to the top: defining it runs nothing, and nothing before it uses its name."""
    if not isinstance(statement, ast.FunctionDef) or statement.decorator_list:
        return False
    before = body[: body.index(statement)]
    names = {node.id for earlier in before for node in ast.walk(earlier) if isinstance(node, ast.Name)}
    names |= {s.name for s in before if isinstance(s, ast.FunctionDef | ast.ClassDef)}
    return statement.name not in names and not statement.args.defaults and not any(statement.args.kw_defaults)


def _lines(statements: Sequence[ast.stmt], indent: int = 0) -> str:
    return "".join(textwrap.indent(f"{ast.unparse(statement)}\n", " " * indent) for statement in statements)
