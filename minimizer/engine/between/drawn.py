"""Assertions of what follows from random numbers: never a number of one draw, but what eager gives in the same run."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from minimizer.engine.reduce.python import Source
from minimizer.engine.reduce.python.seeds import depends_on_state, setters, with_seed
from minimizer.engine.user_script.syntax import DEFINITIONS

IMPORTS = (ast.Import, ast.ImportFrom)
RUN, EXPECTED, ACTUAL = "run", "expected", "actual"
"""Names in a repro that runs its script twice."""
CHECK = f'assert {ACTUAL} == {EXPECTED}, f"expected {{{EXPECTED}}}, actual {{{ACTUAL}}}"\n'


def reseeded(text: str) -> str:
    """The script with other numbers as seeds, as far as it spells them out."""
    tree = ast.parse(text)
    for call in setters(tree):
        for argument in call.args[:1]:
            if isinstance(argument, ast.Constant) and type(argument.value) is int:
                argument.value += 1
    return ast.unparse(tree) + "\n"


def run_twice(text: str, expression: str) -> Iterator[str]:
    """The script as a function that returns an expression, called without the compiler and with it; nothing if it cannot be one.

    It draws the same numbers both times: where it sets no seed, it is given one. Its classes and functions stay outside of it in the first
    form, where they can: Dynamo may trace those of a function in another way.
    """
    source = Source.parse(text)
    tree = ast.parse((with_seed(source) if depends_on_state(source.tree) else source).text)
    if _names(tree) & {RUN, EXPECTED, ACTUAL} or any(isinstance(node, ast.Global) for node in ast.walk(tree)):
        return
    imports = [statement for statement in tree.body if isinstance(statement, IMPORTS)]
    if not any(alias.name == "torch" and not alias.asname for one in imports for alias in one.names):
        return
    declared = [statement for statement in tree.body if isinstance(statement, DEFINITIONS)]
    doing = [statement for statement in tree.body if not isinstance(statement, (*IMPORTS, *DEFINITIONS))]
    if declared and not _names(*declared) & _names(*doing, bound=True):
        yield _twice([*imports, *declared], doing, expression)
    yield _twice(imports, [statement for statement in tree.body if not isinstance(statement, IMPORTS)], expression)


def _names(*nodes: ast.AST, bound: bool = False) -> set[str]:
    """The names in some code, or only those that it binds."""
    names = (node for one in nodes for node in ast.walk(one) if isinstance(node, ast.Name))
    return {node.id for node in names if not bound or isinstance(node.ctx, ast.Store)}


def _twice(before: Sequence[ast.stmt], body: Sequence[ast.stmt], expression: str) -> str:
    run = ast.parse(f"def {RUN}():\n    return {expression}").body[0]
    assert isinstance(run, ast.FunctionDef)
    run.body = [*body, *run.body]
    calls = f"with torch.compiler.set_stance('force_eager'):\n    {EXPECTED} = {RUN}()\n{ACTUAL} = {RUN}()\n"
    return ast.unparse(ast.fix_missing_locations(ast.Module([*before, run, *ast.parse(calls).body], []))) + "\n"
