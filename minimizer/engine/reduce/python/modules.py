"""Replaces an ``nn.Module`` class with a single instance by its layers and a function that calls them."""

from __future__ import annotations

import ast
import copy
from collections.abc import Callable
from typing import cast

from minimizer.engine.reduce.python.entries import ENTRY
from minimizer.engine.reduce.python.source import Editor, Replacement, Source, number_of

METHODS = ({"forward"}, {"__init__", "forward"})


def made_once(source: Source) -> list[str]:
    """Classes with a ``forward``, no method besides it but a constructor, and a name that is used exactly once."""
    uses = [n.id for n in source.nodes() if isinstance(n, ast.Name)]
    return [
        node.name
        for node in source.nodes()
        if isinstance(node, ast.ClassDef) and uses.count(node.name) == 1 and _methods(node).keys() in METHODS
    ]


def without_class(source: Source, name: str) -> Source | None:
    """The script with the constructor's statements, and ``forward`` as a function, in place of class and instance.

    None if the object is used for more than its attributes, or if one of their names is taken.
    """
    made = next((n for n in source.nodes() if isinstance(n, ast.ClassDef) and n.name == name), None)
    call = next((n for n in source.nodes() if isinstance(n, ast.Call) and _is_name(n.func, name)), None)
    if made is None or call is None:
        return None
    site = [statement for statement in source.statements if call in ast.walk(statement)][-1]  # the innermost
    methods, inside = _methods(made), set(ast.walk(made))
    taken = {n.id for n in source.nodes() if isinstance(n, ast.Name) and n not in inside}
    function = "forward" if "forward" not in taken else name.lower()
    setting, attributes = _setting(methods.get("__init__"), call)
    forward = _Plain(methods["forward"])
    is_clean = forward.reads <= attributes and not forward.writes and not forward.is_passed_on
    if setting is None or not is_clean or attributes & (taken | forward.locals) or function in taken | attributes:
        return None
    forward.function.name = function
    named = Editor({number_of(call): lambda _: ast.Name(function, ast.Load())})
    changed = cast(ast.stmt, named.visit(copy.deepcopy(site)))
    return source.edited(
        {
            **_uses(source, site, attributes),
            number_of(made): lambda _: None,
            number_of(site): lambda _: [*setting, forward.function, changed],
        }
    )


def _uses(source: Source, site: ast.stmt, attributes: set[str]) -> dict[int, Callable[[ast.AST], Replacement]]:
    """The edits that have a function in place of the object a statement names: ``layer`` for ``net.layer``, ``torch.compile(net)`` for
    ``net.compile()``."""
    target = site.targets[0] if isinstance(site, ast.Assign) and len(site.targets) == 1 else None
    if not isinstance(target, ast.Name):
        return {}
    edits: dict[int, Callable[[ast.AST], Replacement]] = {
        number_of(n): lambda node: ast.Name(node.attr, ast.Load())  # type: ignore[attr-defined]
        for n in source.nodes()
        if isinstance(n, ast.Attribute) and _is_name(n.value, target.id) and n.attr in attributes
    }
    for statement in source.statements:
        call = statement.value if isinstance(statement, ast.Expr) else None
        if isinstance(call, ast.Call) and ast.unparse(call.func) == f"{target.id}.compile":
            edits[number_of(statement)] = lambda _, call=call: _compiled(target.id, call)  # type: ignore[misc]
    return edits


def _compiled(name: str, call: ast.Call) -> ast.Assign:
    """``f = torch.compile(f)``, with the arguments of a call of ``f.compile()``."""
    entry = ast.parse(ENTRY, mode="eval").body
    arguments = [ast.Name(name, ast.Load()), *call.args]
    return ast.Assign([ast.Name(name, ast.Store())], ast.Call(entry, arguments, call.keywords))


def _methods(node: ast.ClassDef) -> dict[str, ast.FunctionDef]:
    """The methods of a class by name; empty if it has any other statement, or a method without ``self``."""
    methods = {m.name: m for m in node.body if isinstance(m, ast.FunctionDef) and m.args.args}
    return methods if len(methods) == len(node.body) else {}


def _setting(constructor: ast.FunctionDef | None, call: ast.Call) -> tuple[list[ast.stmt] | None, set[str]]:
    """The statements of a constructor for a call's arguments, and the attributes they set; None if it is not plain."""
    if constructor is None:
        return ([], set()) if not call.args and not call.keywords else (None, set())
    plain = _Plain(constructor)
    parameters, body = plain.function.args, plain.function.body
    first_default = len(parameters.args) - len(parameters.defaults)
    values = [*call.args, *parameters.defaults[max(0, len(call.args) - first_default) :]]
    has_others = parameters.vararg or parameters.kwarg or parameters.kwonlyargs or call.keywords
    if has_others or len(values) != len(parameters.args) or plain.is_passed_on or plain.reads - plain.writes:
        return None, set()
    given = [
        ast.Assign(targets=[ast.Name(p.arg, ast.Store())], value=value)
        for p, value in zip(parameters.args, values, strict=True)
        if not _is_name(value, p.arg)
    ]
    return [*given, *(statement for statement in body if not isinstance(statement, ast.Pass))], plain.writes


class _Plain(ast.NodeTransformer):
    """A method as a function: ``x`` for ``self.x``, no ``super().__init__()``, buffers as plain assignments."""

    def __init__(self, method: ast.FunctionDef) -> None:
        self._self = method.args.args[0].arg
        self.reads: set[str] = set()
        self.writes: set[str] = set()
        self.is_passed_on = False
        """Whether the object itself is used, not only its attributes."""
        self.function: ast.FunctionDef = copy.deepcopy(method)
        del self.function.args.args[0]
        self.generic_visit(self.function)

    @property
    def locals(self) -> set[str]:
        """Parameters and assigned names."""
        nodes = list(ast.walk(self.function))
        stored = {n.id for n in nodes if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
        return stored | {n.arg for n in nodes if isinstance(n, ast.arg)}

    def visit_Expr(self, node: ast.Expr) -> Replacement:
        call = node.value
        if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Attribute):
            return self.generic_visit(node)
        maker = call.func.value
        if call.func.attr == "__init__" and isinstance(maker, ast.Call) and _is_name(maker.func, "super"):
            return None
        if call.func.attr == "register_buffer" and _is_name(maker, self._self) and len(call.args) == 2:
            named, value = call.args
            if isinstance(named, ast.Constant) and isinstance(named.value, str):
                self.writes.add(named.value)
                return ast.Assign(targets=[ast.Name(named.value, ast.Store())], value=self.visit(value))
        return self.generic_visit(node)

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        if not _is_name(node.value, self._self):
            return self.generic_visit(node)
        (self.reads if isinstance(node.ctx, ast.Load) else self.writes).add(node.attr)
        return ast.Name(node.attr, node.ctx)

    def visit_Name(self, node: ast.Name) -> ast.Name:
        self.is_passed_on |= node.id == self._self
        return node


def _is_name(node: ast.AST, name: str) -> bool:
    return isinstance(node, ast.Name) and node.id == name
