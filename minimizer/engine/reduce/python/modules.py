"""Replaces a class with a single instance and method by its attributes and a function: an ``nn.Module`` by its layers."""

from __future__ import annotations

import ast
import copy
from typing import cast

from minimizer.engine.reduce.python.entries import ENTRY
from minimizer.engine.reduce.python.rounds import is_name
from minimizer.engine.reduce.python.source import Edit, Editor, Replacement, Source, number_of
from minimizer.engine.user_script.statements import bound_name
from minimizer.engine.user_script.syntax import names_stored

CONSTRUCTOR, OF_MODULES = "__init__", "forward"


def made_once(source: Source) -> list[str]:
    """Classes with one method besides a constructor, and a name that is used exactly once."""
    uses = [n.id for n in source.nodes() if isinstance(n, ast.Name)]
    return [
        node.name
        for node in source.nodes()
        if isinstance(node, ast.ClassDef) and uses.count(node.name) == 1 and _method(node) is not None
    ]


def _method(made: ast.ClassDef) -> ast.FunctionDef | None:
    """The only method of a class besides its constructor; None for none or several."""
    others = [method for name, method in _methods(made).items() if name != CONSTRUCTOR]
    return others[0] if len(others) == 1 else None


def without_class(source: Source, name: str) -> Source | None:
    """The script with the constructor's statements, and the method as a function, in place of class and instance.

    None if the object is used for more than its attributes. Attributes whose names are taken get others.
    """
    plain = _without_class(source, name)
    if plain is None and (renamed := _with_free_names(source, name)) is not None:
        return _without_class(renamed, name)
    return plain


def _with_free_names(source: Source, name: str) -> Source | None:
    """The script with conflicting attribute names of an object replaced; None without conflicts."""
    made = next((n for n in source.nodes() if isinstance(n, ast.ClassDef) and n.name == name), None)
    own = [m.args.args[0].arg for m in _methods(made).values()] if made is not None else []
    inside = set(ast.walk(made)) if made is not None else set()
    attributes = [n for n in inside if isinstance(n, ast.Attribute) and any(is_name(n.value, one) for one in own)]
    names = {n.id for n in source.nodes() if isinstance(n, ast.Name)}
    taken = {n.attr for n in attributes if isinstance(n.ctx, ast.Store)} & names
    held = next(filter(None, (bound_name(s) for s in source.statements if _makes(s, name))), None)
    if held is not None:
        attributes += [n for n in source.nodes() if isinstance(n, ast.Attribute) and is_name(n.value, held)]
    free = {one: f"{one}_" for one in taken if f"{one}_" not in names}
    return source.edited({number_of(n): _with_attribute(free[n.attr]) for n in attributes if n.attr in free})


def _makes(statement: ast.stmt, name: str) -> bool:
    return isinstance(statement, ast.Assign) and any(
        isinstance(n, ast.Call) and is_name(n.func, name) for n in ast.walk(statement)
    )


def _with_attribute(name: str) -> Edit:
    return lambda node: ast.Attribute(node.value, name, node.ctx)  # type: ignore[attr-defined]


def _without_class(source: Source, name: str) -> Source | None:
    """As `without_class`; None too if the name of an attribute is taken."""
    made = next((n for n in source.nodes() if isinstance(n, ast.ClassDef) and n.name == name), None)
    call = next((n for n in source.nodes() if isinstance(n, ast.Call) and is_name(n.func, name)), None)
    method = _method(made) if made is not None else None
    if made is None or call is None or method is None:
        return None
    site = [statement for statement in source.statements if call in ast.walk(statement)][-1]  # the innermost
    methods, inside = _methods(made), set(ast.walk(made))
    taken = {n.id for n in source.nodes() if isinstance(n, ast.Name) and n not in inside}
    function = method.name if method.name not in taken else name.lower()
    setting, attributes = _setting(methods.get(CONSTRUCTOR), call)
    forward = _Plain(method)
    is_clean = forward.reads <= attributes and not forward.writes and not forward.is_passed_on
    if setting is None or not is_clean or attributes & (taken | forward.locals) or function in taken | attributes:
        return None
    forward.function.name = function
    held = bound_name(site)
    uses = _uses(source, held, attributes) if held is not None else {}
    if method.name == OF_MODULES:  # the object itself is called
        is_named = isinstance(site, ast.Assign) and site.value is call and _is_free(source, held, forward, attributes)
        forward.function.name = held if is_named and held is not None else function
        changed: list[ast.stmt] = [] if is_named else [_with_function(site, call, function)]
    else:
        bound = [
            n
            for n in source.nodes()
            if isinstance(n, ast.Attribute)
            and n.attr == method.name
            and (n.value is call or (held is not None and is_name(n.value, held)))
        ]
        is_assigned = isinstance(site, ast.Assign) and site.value is call
        if not bound or any(n.value is call for n in bound) is is_assigned:
            return None
        uses |= {number_of(n): lambda _: ast.Name(function, ast.Load()) for n in bound}
        changed = [] if is_assigned else [_with_function(site, bound[0], function)]
    return source.edited(
        {
            **uses,
            number_of(made): lambda _: None,
            number_of(site): lambda _: [*setting, forward.function, *changed],
        }
    )


def _is_free(source: Source, held: str | None, forward: _Plain, attributes: set[str]) -> bool:
    """Whether the function can take the object's name, so that no second name is needed."""
    bound = names_stored(source.nodes())
    bound += [n.arg for n in source.nodes() if isinstance(n, ast.arg)]
    return held is not None and bound.count(held) == 1 and held not in forward.locals | attributes


def _with_function(site: ast.stmt, node: ast.expr, function: str) -> ast.stmt:
    """A statement with the name of a function in place of an expression."""
    named = Editor({number_of(node): lambda _: ast.Name(function, ast.Load())})
    return cast(ast.stmt, named.visit(copy.deepcopy(site)))


def _uses(source: Source, held: str, attributes: set[str]) -> dict[int, Edit]:
    """The edits that replace the named object by a function: ``layer`` for ``net.layer``, ``torch.compile(net)`` for
    ``net.compile()``.
    """
    edits: dict[int, Edit] = {
        number_of(n): lambda node: ast.Name(node.attr, ast.Load())  # type: ignore[attr-defined]
        for n in source.nodes()
        if isinstance(n, ast.Attribute) and is_name(n.value, held) and n.attr in attributes
    }
    for statement in source.statements:
        call = statement.value if isinstance(statement, ast.Expr) else None
        if isinstance(call, ast.Call) and ast.unparse(call.func) == f"{held}.compile":
            edits[number_of(statement)] = lambda _, call=call: _compiled(held, call)  # type: ignore[misc]
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
        if not is_name(value, p.arg)
    ]
    return [*given, *(statement for statement in body if not _does_nothing(statement))], plain.writes


def _does_nothing(statement: ast.stmt) -> bool:
    """Whether it is ``pass``, or a leftover of ``self.x = x``."""
    is_own = isinstance(statement, ast.Assign) and [ast.unparse(t) for t in statement.targets] == [
        ast.unparse(statement.value)
    ]
    return is_own or isinstance(statement, ast.Pass)


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
        stored = set(names_stored(nodes))
        return stored | {n.arg for n in nodes if isinstance(n, ast.arg)}

    def visit_Expr(self, node: ast.Expr) -> Replacement:
        call = node.value
        if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Attribute):
            return self.generic_visit(node)
        maker = call.func.value
        if call.func.attr == "__init__" and isinstance(maker, ast.Call) and is_name(maker.func, "super"):
            return None
        if call.func.attr == "register_buffer" and is_name(maker, self._self) and len(call.args) == 2:
            named, value = call.args
            if isinstance(named, ast.Constant) and isinstance(named.value, str):
                self.writes.add(named.value)
                return ast.Assign(targets=[ast.Name(named.value, ast.Store())], value=self.visit(value))
        return self.generic_visit(node)

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        if not is_name(node.value, self._self):
            return self.generic_visit(node)
        (self.reads if isinstance(node.ctx, ast.Load) else self.writes).add(node.attr)
        return ast.Name(node.attr, node.ctx)

    def visit_Name(self, node: ast.Name) -> ast.Name:
        self.is_passed_on |= node.id == self._self
        return node
