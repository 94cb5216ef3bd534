"""Renames a program's uses of the user's modules to the names in the linked script."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace

from minimizer.engine.program.model import Program
from minimizer.engine.survey.own_kernels import with_kernel_names


def under_linked_names(program: Program, names: Mapping[str, str]) -> Program:
    """The program with these names for its kernels and its arguments of ``torch.compile``, and with imports of unlisted
    ones.

    Args:
        program: names objects of modules by their paths, such as ``kernels.scale``.
        names: those in the linked script, by path (`Linked.names`).
    """
    linked = {path.rpartition(".")[0] for path in names}
    setup = [line for line in program.setup if line.removeprefix("import ") not in linked]
    kwargs = []
    for key, value in program.compile_kwargs:
        paths = _Paths(names)
        with suppress(SyntaxError):
            tree = paths.visit(ast.parse(value, mode="eval"))
            value = ast.unparse(tree) if paths.are_renamed else value
        setup += [f"import {module}" for module in paths.modules]
        kwargs.append((key, value))
    renamed = with_kernel_names(program, names)
    return replace(renamed, setup=tuple(dict.fromkeys(setup)), compile_kwargs=tuple(kwargs))


class _Paths(ast.NodeTransformer):
    """Replaces dotted paths by names. ``modules``: those of the remaining paths, except torch itself."""

    def __init__(self, names: Mapping[str, str]) -> None:
        self._names = names
        self.are_renamed = False
        self.modules: list[str] = []

    def visit_Attribute(self, node: ast.Attribute) -> ast.expr:
        return self._new(node)

    def visit_Name(self, node: ast.Name) -> ast.expr:
        return self._new(node)

    def _new(self, node: ast.Attribute | ast.Name) -> ast.expr:
        path = ast.unparse(node)
        if (name := self._names.get(path, path)) != path:
            self.are_renamed = True
            return ast.Name(name)
        module = path.rpartition(".")[0]
        if module.partition(".")[0] not in ("", "torch") and module.replace(".", "").isidentifier():
            self.modules.append(module)
        return node
