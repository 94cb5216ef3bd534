"""A script with Dynamo's backend ``eager`` at every entry to the compiler, as the repro of a fault between graphs has it."""

from __future__ import annotations

import ast

from minimizer.engine.reduce.python.entries import is_method
from minimizer.engine.user_script.syntax import full_name, imported

CHOICES = ("backend", "mode", "options")
ENTRY = "torch.compile"


def on_eager(text: str) -> str:
    """The script with ``backend="eager"`` in place of the backends, modes and options that it asks for."""
    tree = ast.parse(text)
    names = imported(tree)

    class Entries(ast.NodeTransformer):
        def visit_Call(self, node: ast.Call) -> ast.Call:
            self.generic_visit(node)
            if full_name(node.func, names) == ENTRY or is_method(node.func, names):
                return _with_backend(node)
            return node

        def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.FunctionDef:
            self.generic_visit(node)
            node.decorator_list = [_decorator(d, full_name(d, names)) for d in node.decorator_list]
            return node

    return ast.unparse(ast.fix_missing_locations(Entries().visit(tree))) + "\n"


def _decorator(node: ast.expr, name: str) -> ast.expr:
    return _with_backend(ast.Call(func=node, args=[], keywords=[])) if name == ENTRY else node


def _with_backend(call: ast.Call) -> ast.Call:
    kept = [word for word in call.keywords if word.arg not in CHOICES]
    call.keywords = [*kept, ast.keyword(arg="backend", value=ast.Constant(value="eager"))]
    return call
