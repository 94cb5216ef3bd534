"""Replaces a class with a single instance by its attributes and functions: an ``nn.Module`` by its layers."""

from __future__ import annotations

import ast
import copy
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, cast

from minimizer.engine.reduce.python.edits import CALLED
from minimizer.engine.reduce.python.entries import ENTRY
from minimizer.engine.reduce.python.rounds import is_name
from minimizer.engine.reduce.python.source import Edit, Editor, Replacement, Source, named, number_of
from minimizer.engine.user_script.statements import bound_name
from minimizer.engine.user_script.syntax import names_stored

CONSTRUCTOR = "__init__"


def made_once(source: Source) -> list[str]:
    """Classes with a constructor or methods, and a name that is used exactly once."""
    uses = [n.id for n in source.nodes() if isinstance(n, ast.Name)]
    classes = [n for n in source.nodes() if isinstance(n, ast.ClassDef)]
    return [one.name for one in classes if uses.count(one.name) == 1 and _parts(one) is not None]


def without_class(source: Source, name: str) -> Source | None:
    """The script with the constructor's statements, and the methods as functions, in place of class and instance.

    None if the object is used for more than its attributes. Attributes whose names are taken get others.
    """
    plain = _without_class(source, name)
    if plain is None and (renamed := _with_free_names(source, name)) is not None:
        return _without_class(renamed, name)
    return plain


def _with_free_names(source: Source, name: str) -> Source | None:
    """The script with conflicting attribute names of an object replaced; None without conflicts."""
    made = next((n for n in source.nodes() if isinstance(n, ast.ClassDef) and n.name == name), None)
    parts = _parts(made) if made is not None else None
    own = [m.args.args[0].arg for m in parts.bound.values()] if parts is not None else []
    inside = set(ast.walk(made)) if made is not None else set()
    attributes = [n for n in inside if isinstance(n, ast.Attribute) and any(is_name(n.value, one) for one in own)]
    names = set(source.names)
    taken = {n.attr for n in attributes if isinstance(n.ctx, ast.Store)} & names
    held = next(filter(None, (bound_name(s) for s in source.statements if _makes(s, name))), None)
    if held is not None:
        attributes += [n for n in source.nodes() if isinstance(n, ast.Attribute) and is_name(n.value, held)]
    free = {one: f"{one}_" for one in taken if f"{one}_" not in names}
    return source.edited({number_of(n): _with_attribute(free[n.attr]) for n in attributes if n.attr in free})


def with_plain_names(source: Source) -> Iterator[Source | None]:
    """The scripts with the plain form of one name that ends in an underscore, as `without_class` makes them, where it is free."""
    methods = {m.name for n in source.nodes() if isinstance(n, ast.ClassDef) for m in n.body if hasattr(m, "name")}
    for name in sorted({*source.names} - methods):
        if name.endswith("_") and not name.startswith("_"):
            yield source.renamed(name, name[:-1])


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
    parts = _parts(made) if made is not None else None
    if made is None or call is None or parts is None:
        return None
    inside = set(ast.walk(made))
    taken = {named(n) for n in source.nodes() if n not in inside and not isinstance(n, ast.arg)} - {""}
    site = [statement for statement in source.statements if call in ast.walk(statement)][-1]  # the innermost
    held = bound_name(site) if isinstance(site, ast.Assign) and site.value is call else None
    called = next((method for method in CALLED if method in parts.others), None)
    names = parts.names(taken)
    if called is not None and held is not None and _is_free(source, held, made):
        names[called] = held
    setting = _setting(parts, call, names, taken)
    functions = [_Plain(method, names) for method in parts.others.values()]
    changes = {one for plain in functions for one in plain.writes}
    if setting is None or (changes and site not in source.tree.body):
        return None
    attributes = setting.attributes | changes
    own = {one: one for one in attributes} | names
    clash = (({*names.values()} - {held}) & (taken | attributes)) | (attributes & taken)
    if clash or len({*names.values()}) < len(names) or not all(plain.needs_only(own) for plain in functions):
        return None
    changed = _at_site(site, call, own, called, held)
    if changed is None:
        return None
    defined = [plain.as_function() for plain in functions]
    together = [*defined, *setting.statements] if setting.reads_methods else [*setting.statements, *defined]
    edits: dict[int, Edit] = {number_of(made): lambda _: None, number_of(site): lambda _: [*together, *changed]}
    return source.edited({**(_uses(source, held, own) if held is not None else {}), **edits})


def _at_site(
    site: ast.stmt, call: ast.Call, own: Mapping[str, str], called: str | None, held: str | None
) -> list[ast.stmt] | None:
    """What the statement that makes an object becomes; None if it needs the object itself."""
    read = next((n for n in ast.walk(site) if isinstance(n, ast.Attribute) and n.value is call), None)
    if read is not None:
        return [_with_name(site, read, own[read.attr])] if read.attr in own else None
    if called is not None:
        return [] if own[called] == held else [_with_name(site, call, own[called])]
    return [] if held is not None else None


def _is_free(source: Source, held: str, made: ast.ClassDef) -> bool:
    """Whether a function can take the object's name, so that no second name is needed."""
    bound = names_stored(source.nodes())
    bound += [n.arg for n in source.nodes() if isinstance(n, ast.arg)]
    return bound.count(held) == 1 and not any(isinstance(n, ast.Attribute) and n.attr == held for n in ast.walk(made))


def _with_name(site: ast.stmt, node: ast.expr, name: str) -> ast.stmt:
    """A statement with a name in place of an expression."""
    named = Editor({number_of(node): lambda _: ast.Name(name, ast.Load())})
    return cast(ast.stmt, named.visit(copy.deepcopy(site)))


def _uses(source: Source, held: str, own: Mapping[str, str]) -> dict[int, Edit]:
    """The edits that replace the named object by its ``own`` names: ``layer`` for ``net.layer``, ``torch.compile(net)`` for
    ``net.compile()``.
    """
    edits: dict[int, Edit] = {
        number_of(n): lambda node: ast.Name(own[node.attr], node.ctx)  # type: ignore[attr-defined]
        for n in source.nodes()
        if isinstance(n, ast.Attribute) and is_name(n.value, held) and n.attr in own
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


@dataclass(frozen=True)
class _Parts:
    """What a class consists of: its constructor, if it has one, other methods, static ones, and assignments of its body."""

    name: str
    constructor: ast.FunctionDef | None
    others: Mapping[str, ast.FunctionDef]
    static: Collection[str]
    fields: Sequence[ast.Assign]

    @property
    def bound(self) -> Mapping[str, ast.FunctionDef]:
        """The methods whose first parameter is the object."""
        methods = {name: method for name, method in self.others.items() if name not in self.static}
        return methods | ({CONSTRUCTOR: self.constructor} if self.constructor is not None else {})

    def names(self, taken: Collection[str]) -> dict[str, str]:
        """The name of the function that replaces each method."""
        free = self.name.lower() if len(self.others) == 1 else ""
        is_free = {name: name not in taken and not name.startswith("__") for name in self.others}
        return {name: name if is_free[name] else free or f"{name.strip('_')}_" for name in self.others}


def _parts(made: ast.ClassDef) -> _Parts | None:
    """The parts of a class; None if it has others, no part at all, or a method that is neither plain nor static."""
    methods: dict[str, ast.FunctionDef] = {}
    static: set[str] = set()
    fields: list[ast.Assign] = []
    for statement in made.body:
        if isinstance(statement, ast.Assign) and bound_name(statement) is not None:
            fields.append(statement)
        elif isinstance(statement, ast.FunctionDef):
            decorators = [one.id for one in statement.decorator_list if isinstance(one, ast.Name)]
            if "staticmethod" in decorators:
                static.add(statement.name)
            elif not statement.args.args or {"classmethod", "property"} & {*decorators}:
                return None
            methods[statement.name] = statement
        elif not isinstance(statement, ast.Pass):
            return None
    constructor = methods.pop(CONSTRUCTOR, None)
    return _Parts(made.name, constructor, methods, static, fields) if methods or constructor or fields else None


class _Setting(NamedTuple):
    """The statements of a constructor for a call's arguments, the attributes that they set, and whether they read methods."""

    statements: list[ast.stmt]
    attributes: set[str]
    reads_methods: bool = False


def _setting(parts: _Parts, call: ast.Call, names: Mapping[str, str], taken: Collection[str]) -> _Setting | None:
    """What making an object comes to; None if its constructor is not plain, or the call passes it something else.

    A parameter with a ``taken`` name gets another one.
    """
    fields = {one for one in map(bound_name, parts.fields) if one is not None}
    if parts.constructor is None:
        return _Setting([*parts.fields], fields) if not call.args and not call.keywords else None
    plain = _Plain(parts.constructor, names)
    parameters = plain.function.args
    values = _values(parameters, call)
    if values is None or plain.is_more or not plain.reads <= plain.writes | fields | names.keys():
        return None
    bound = {name: value for name, value in values.items() if not is_name(value, name)}
    free = {name: f"{name}_" if name in taken else name for name in bound}
    if {*free.values()} & {*taken}:
        return None
    given = [ast.Assign(targets=[ast.Name(free[name], ast.Store())], value=value) for name, value in bound.items()]
    for node in ast.walk(plain.function):
        if isinstance(node, ast.Name) and node not in plain.own:
            node.id = free.get(node.id, node.id)
    body = [statement for statement in plain.function.body if not _does_nothing(statement)]
    return _Setting([*parts.fields, *given, *body], plain.writes | fields, bool(plain.reads & names.keys()))


def _values(parameters: ast.arguments, call: ast.Call) -> dict[str, ast.expr] | None:
    """The value of each parameter in a call; None if one has none, or the call has arguments of another sort."""
    names = [parameter.arg for parameter in parameters.args]
    others = parameters.vararg or parameters.kwarg or parameters.kwonlyargs or parameters.posonlyargs
    words = {keyword.arg: keyword.value for keyword in call.keywords if keyword.arg in names}
    is_plain = len(call.args) <= len(names) and not any(isinstance(one, ast.Starred) for one in call.args)
    if others or not is_plain or len(words) < len(call.keywords):
        return None
    defaults = dict(zip(names[::-1], parameters.defaults[::-1], strict=False))
    given = (
        defaults | dict(zip(names, call.args, strict=False)) | {name: words[name] for name in names if name in words}
    )
    return {name: given[name] for name in names} if given.keys() == {*names} else None


def _does_nothing(statement: ast.stmt) -> bool:
    """Whether it is ``pass``, or a leftover of ``self.x = x``."""
    is_own = isinstance(statement, ast.Assign) and [ast.unparse(t) for t in statement.targets] == [
        ast.unparse(statement.value)
    ]
    return is_own or isinstance(statement, ast.Pass)


class _Plain(ast.NodeTransformer):
    """A method as a function: ``x`` for ``self.x``, no ``super().__init__()``, buffers as plain assignments.

    ``names``: the function that replaces each method. A static method stays as it is.
    """

    def __init__(self, method: ast.FunctionDef, names: Mapping[str, str]) -> None:
        decorators = [one for one in method.decorator_list if is_name(one, "staticmethod")]
        self._self, self._names = "" if decorators else method.args.args[0].arg, names
        self.reads: set[str] = set()
        self.writes: set[str] = set()
        self.own: list[ast.Name] = []
        """The names in the places of attributes."""
        self.is_more = False
        """Whether the object itself is used, not only its attributes, or a nested function assigns one."""
        self.function: ast.FunctionDef = copy.deepcopy(method)
        self.function.name = names.get(method.name, method.name)
        if decorators:
            self.function.decorator_list = [
                one for one in self.function.decorator_list if not is_name(one, "staticmethod")
            ]
        else:
            del self.function.args.args[0]
        self.generic_visit(self.function)

    @property
    def locals(self) -> set[str]:
        """Parameters and assigned names."""
        nodes = list(ast.walk(self.function))
        stored = set(names_stored(nodes)) - self.writes
        return stored | {n.arg for n in nodes if isinstance(n, ast.arg)}

    def needs_only(self, own: Collection[str]) -> bool:
        """Whether it needs nothing of its object but these attributes and methods, which no variable of its own hides."""
        return not self.is_more and self.reads <= {*own} and not (self.reads | self.writes) & self.locals

    def as_function(self) -> ast.FunctionDef:
        """The function, in which the attributes that the method assigns are global."""
        if self.writes:
            self.function.body.insert(0, ast.Global(sorted(self.writes)))
        return self.function

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
        self.own.append(ast.Name(self._names.get(node.attr, node.attr), node.ctx))
        return self.own[-1]

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        before = set(self.writes)
        self.writes.clear()
        self.generic_visit(node)
        self.is_more |= bool(self.writes)
        self.writes |= before
        return node

    def visit_Name(self, node: ast.Name) -> ast.Name:
        self.is_more |= node.id == self._self
        return node
