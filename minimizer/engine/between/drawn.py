"""Assertions of what follows from random numbers: never a number of one draw, but what eager gives in the same run."""

from __future__ import annotations

import ast

from minimizer.engine.reduce.python import Source
from minimizer.engine.reduce.python.seeds import depends_on_state, setters, with_seed

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


def run_twice(text: str, expression: str) -> str | None:
    """The script as a function that returns an expression, called without the compiler and with it; None if it cannot be one.

    It draws the same numbers both times: where it sets no seed, it is given one.
    """
    source = Source.parse(text)
    tree = ast.parse((with_seed(source) if depends_on_state(source.tree) else source).text)
    names = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    if names & {RUN, EXPECTED, ACTUAL} or any(isinstance(node, ast.Global) for node in ast.walk(tree)):
        return None
    imports = [statement for statement in tree.body if isinstance(statement, IMPORTS)]
    if not any(alias.name == "torch" and not alias.asname for one in imports for alias in one.names):
        return None
    body = [statement for statement in tree.body if not isinstance(statement, IMPORTS)]
    body.append(ast.Return(ast.parse(expression, mode="eval").body))
    calls = f"with torch.compiler.set_stance('force_eager'):\n    {EXPECTED} = {RUN}()\n{ACTUAL} = {RUN}()\n"
    run = ast.parse(f"def {RUN}():\n    pass").body[0]
    assert isinstance(run, ast.FunctionDef)
    run.body = body
    return ast.unparse(ast.fix_missing_locations(ast.Module([*imports, run, *ast.parse(calls).body], []))) + "\n"
