"""Passes for a script with a fault between graphs, where neither the computation nor the object structure matters.

Each edit proposes candidates that the oracle has to confirm; none needs to preserve the script's meaning.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Iterator

from minimizer.engine.reduce.problem import Problem
from minimizer.engine.reduce.python import inline
from minimizer.engine.reduce.python.rounds import is_name, renamed
from minimizer.engine.reduce.python.source import Edit, Source, number_of
from minimizer.engine.user_script.syntax import names_stored

MAKERS = (
    "torch.randn", "torch.rand", "torch.full", "torch.zeros", "torch.arange", "torch.tensor", "torch.randint", "torch.empty",
)  # fmt: skip
ONE = "torch.ones(1)"
DRAWN, SEED = ("torch.randn", "torch.rand"), "torch.manual_seed"


def objects(problem: Problem[Source]) -> None:
    """Replace objects by their attributes and calls of methods by their bodies, until no such edit is accepted."""
    problem.exhaust(_simpler_objects, "objects")


def operations(problem: Problem[Source]) -> None:
    """Replace computations by ``x + 1`` or a constant, tensors by ``torch.ones(1)``, until no edit is accepted."""
    problem.exhaust(_simpler_operations, "operations")


def _simpler_objects(source: Source) -> Iterator[Source | None]:
    classes = [node for node in source.nodes() if isinstance(node, ast.ClassDef)]
    for node in classes:
        for method in node.body:
            if isinstance(method, ast.FunctionDef) and not method.name.startswith("__"):
                yield _with_method_spliced(source, method)
    for node in classes:
        yield _without_object(source, node)
        yield _as_plain_class(source, node)


def _with_method_spliced(source: Source, method: ast.FunctionDef) -> Source | None:
    """With the body of a method in place of its only call, if that is a statement: ``cache.put(k, v)``."""
    calls = [
        (statement, call, call.func.value)
        for statement in source.statements
        if (call := inline.call_of(statement)) is not None
        and isinstance(call.func, ast.Attribute)
        and call.func.attr == method.name
    ]
    uses = [n for n in source.nodes() if isinstance(n, ast.Attribute) and n.attr == method.name]
    if len(calls) != 1 or len(uses) != 1 or not method.args.args or method.decorator_list:
        return None
    statement, call, owner = calls[0]
    names = [p.arg for p in method.args.args]
    values = [owner, *call.args]
    if len(values) != len(names) or call.keywords:
        return None
    given = [renamed(inner, dict(zip(names, values, strict=True))) for inner in method.body]
    body = inline.in_place_of(statement, given)
    if body is None or any(isinstance(n, ast.Return) for inner in given[:-1] for n in ast.walk(inner)):
        return None
    return source.edited({number_of(statement): lambda _: body, number_of(method): lambda _: None})


def _without_object(source: Source, made: ast.ClassDef) -> Source | None:
    """With the value of an object's only attribute in place of the object."""
    constructor = next((m for m in made.body if isinstance(m, ast.FunctionDef) and m.name == "__init__"), None)
    if constructor is None or len(made.body) != 1 or len(constructor.body) != 1:
        return None
    setting = constructor.body[0]
    if not isinstance(setting, ast.Assign) or not isinstance(setting.targets[0], ast.Attribute):
        return None
    attribute, value = setting.targets[0].attr, setting.value
    makers = [n for n in source.nodes() if isinstance(n, ast.Call) and is_name(n.func, made.name)]
    if len(makers) != 1:
        return None
    names = [p.arg for p in constructor.args.args[1:]]
    if len(makers[0].args) != len(names):
        return None
    given = renamed(value, dict(zip(names, makers[0].args, strict=True)))
    inside = set(ast.walk(made))
    reads = [n for n in source.nodes() if isinstance(n, ast.Attribute) and n.attr == attribute and n not in inside]
    edits: dict[int, Edit] = {number_of(n): lambda node: node.value for n in reads}  # type: ignore[attr-defined]
    return source.edited({**edits, number_of(makers[0]): lambda _: given, number_of(made): lambda _: None})


def _as_plain_class(source: Source, made: ast.ClassDef) -> Source | None:
    """With class attributes in place of a constructor that takes no arguments."""
    constructor = next((m for m in made.body if isinstance(m, ast.FunctionDef) and m.name == "__init__"), None)
    if constructor is None or len(constructor.args.args) != 1:
        return None
    own = constructor.args.args[0].arg
    fields: list[ast.stmt] = []
    for statement in constructor.body:
        target = statement.targets[0] if isinstance(statement, ast.Assign) else None
        if (
            not isinstance(statement, ast.Assign)
            or not isinstance(target, ast.Attribute)
            or not is_name(target.value, own)
        ):
            return None
        fields.append(ast.Assign(targets=[ast.Name(target.attr, ast.Store())], value=statement.value))
    return source.edited({number_of(constructor): lambda _: fields})


def _simpler_operations(source: Source) -> Iterator[Source | None]:
    yield from _without_drawing(source)
    functions = [n for n in source.nodes() if isinstance(n, ast.FunctionDef | ast.Lambda)]
    for function in functions:
        body = function.body if isinstance(function.body, list) else [function.body]
        own = {p.arg for p in function.args.args}
        own.update(*(names_stored(ast.walk(part)) for part in body))
        for node in (n for part in body for n in ast.walk(part)):
            value = node.value if isinstance(node, ast.Return | ast.Assign) else node if node is function.body else None
            if isinstance(value, ast.expr):
                for name in sorted({n.id for n in ast.walk(value) if isinstance(n, ast.Name)} & own):
                    yield source.edited({number_of(value): lambda _, name=name: _plus_one(name)})  # type: ignore[misc]
            if isinstance(node, ast.Return) and isinstance(node.value, ast.Call | ast.Compare):
                least = ast.Constant(1 if isinstance(node.value, ast.Call) else True)
                yield source.edited({number_of(node.value): lambda _, least=least: least})  # type: ignore[misc]
    for node in source.nodes():
        if isinstance(node, ast.Call) and ast.unparse(node.func) in MAKERS:
            yield source.edited({number_of(node): lambda _: ast.parse(ONE, mode="eval").body})
            yield _ones_of_its_size(source, node)
        elif isinstance(node, ast.Call) and _makes_layer(node):
            yield source.edited({number_of(node): lambda _: ast.parse("torch.nn.ReLU()", mode="eval").body})


def _without_drawing(source: Source) -> Iterator[Source | None]:
    """Without seeds, and with ones in place of all tensors at once, whose shapes then still agree, or of all random
    ones.

    The difference can then be asserted directly, without a second run for the right value.
    """
    calls = [node for node in source.nodes() if isinstance(node, ast.Call)]
    seeds = [s for s in source.statements if isinstance(s, ast.Expr) and ast.unparse(s.value).startswith(f"{SEED}(")]
    gone: dict[int, Edit] = {number_of(seed): lambda _: None for seed in seeds}
    made = [number_of(call) for call in calls if ast.unparse(call.func) in MAKERS]
    yield source.edited(gone | dict.fromkeys(made, lambda _: ast.parse(ONE, mode="eval").body))
    drawn = [number_of(call.func) for call in calls if ast.unparse(call.func) in DRAWN]
    yield source.edited(gone | dict.fromkeys(drawn, lambda _: ast.parse("torch.ones", mode="eval").body))


def _ones_of_its_size(source: Source, maker: ast.Call) -> Source | None:
    """With ``torch.ones(n)`` in place of a tensor whose first size is ``n``, if that is not constant."""
    sizes = next((one.elts for one in maker.args if isinstance(one, ast.Tuple | ast.List)), maker.args)
    changing = [one for one in sizes if not isinstance(one, ast.Constant)]
    if not changing:
        return None
    ones = ast.parse(ONE, mode="eval").body
    assert isinstance(ones, ast.Call)
    ones.args = [copy.deepcopy(changing[0])]
    return source.edited({number_of(maker): lambda _: ones})


def _makes_layer(call: ast.Call) -> bool:
    name = ast.unparse(call.func)
    return (
        name.startswith(("nn.", "torch.nn."))
        and name.rpartition(".")[2][:1].isupper()
        and name.rpartition(".")[2] not in ("ReLU", "Module")
    )


def _plus_one(name: str) -> ast.BinOp:
    return ast.BinOp(ast.Name(name, ast.Load()), ast.Add(), ast.Constant(1))
