"""Passes over forms with a single part: a comprehension over one item, a container of one, a redundant name or call.

Reduced scripts are full of them: lists that have lost their other elements, loops their other rounds.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Iterator, Sequence

from minimizer.engine.reduce.problem import Problem
from minimizer.engine.reduce.python.rounds import LISTS, bound, items_of, renamed
from minimizer.engine.reduce.python.source import Edit, Source, number_of
from minimizer.engine.user_script.statements import bound_name
from minimizer.engine.user_script.syntax import full_name, names_read

Comprehension = ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp


def simpler(problem: Problem[Source]) -> None:
    """Replace each such form by its part, until no such edit is accepted."""
    problem.exhaust(_simpler, "forms")


def _simpler(source: Source) -> Iterator[Source | None]:
    for node in source.nodes():
        if isinstance(node, Comprehension):
            yield from _as_container(source, node)
        elif isinstance(node, ast.Starred):
            yield _spread(source, node)
        elif isinstance(node, ast.Subscript | ast.Call):
            yield _as_element(source, node)
            yield _called_itself(source, node)
        elif isinstance(node, ast.Assign):
            yield _for_one_name(source, node)
        elif isinstance(node, ast.For):
            yield _of_generator(source, node)
        elif isinstance(node, ast.ClassDef):
            yield from _with_fields(source, node)
            yield from _with_settings(source, node)


# containers --------------------------------------------------------------------------------------------------------------


def _as_container(source: Source, node: Comprehension) -> Iterator[Source | None]:
    """With nothing, and with the results of the first round, in place of a comprehension."""
    yield source.edited({number_of(node): lambda _: _container(node, [])})
    first = _first_round(source, node)
    if first:
        yield source.edited({number_of(node): lambda _: _container(node, first)})


def _first_round(source: Source, node: Comprehension) -> list[ast.expr]:
    """The results of a comprehension's first round, the key before the value.

    Empty if the script does not spell the items out.
    """
    generator, *others = node.generators
    items = items_of(source, generator.iter)
    values = bound(generator.target, items.at(0)) if items.count and not others else None
    made = [node.key, node.value] if isinstance(node, ast.DictComp) else [node.elt]
    return [renamed(one, values) for one in made] if values is not None else []


def _container(node: Comprehension, made: Sequence[ast.expr]) -> ast.expr:
    """A container of a comprehension's type; a tuple for a generator."""
    if isinstance(node, ast.DictComp):
        return ast.Dict(keys=[*made[:1]], values=[*made[1:]])
    if isinstance(node, ast.SetComp):
        return ast.Set([*made]) if made else ast.Call(ast.Name("set", ast.Load()), [], [])
    return (ast.List if isinstance(node, ast.ListComp) else ast.Tuple)([*made], ast.Load())


def _spread(source: Source, node: ast.Starred) -> Source | None:
    """With the elements of a literal container in place of ``*container``."""
    value = node.value
    if isinstance(value, Comprehension) and not isinstance(value, ast.DictComp):
        return (
            source.edited({number_of(node): lambda _: elements}) if (elements := _first_round(source, value)) else None
        )
    return source.edited({number_of(node): lambda _: value.elts}) if isinstance(value, LISTS) else None


def _of_generator(source: Source, loop: ast.For) -> Source | None:
    """With a generator function's own loop in place of a loop over its values, if that is the function's only use."""
    call = loop.iter
    if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Name) or call.keywords or loop.orelse:
        return None
    name = call.func.id
    made = [one for one in source.statements if isinstance(one, ast.FunctionDef) and one.name == name]
    uses = [node for node in source.nodes() if isinstance(node, ast.Name) and node.id == name]
    if len(made) != 1 or len(uses) != 1 or made[0].decorator_list:
        return None
    function, (*before, rounds) = made[0], made[0].body
    given = [one.arg for one in function.args.args]
    leaves = [n for n in ast.walk(function) if isinstance(n, ast.Return | ast.Yield | ast.YieldFrom)]
    if not isinstance(rounds, ast.For) or rounds.orelse or len(leaves) != 1 or len(given) != len(call.args):
        return None
    *first, end = rounds.body
    value = end.value if isinstance(end, ast.Expr) and end.value is leaves[0] else None
    if not isinstance(value, ast.Yield) or value.value is None:
        return None
    passed = [ast.Assign([ast.Name(one, ast.Store())], to) for one, to in zip(given, call.args, strict=True)]
    body = [*first, ast.Assign([loop.target], value.value), *loop.body]
    written = [*passed, *before, ast.For(rounds.target, rounds.iter, body, [])]
    return source.edited({number_of(loop): lambda _: written, number_of(function): lambda _: None})


def _as_element(source: Source, node: ast.Subscript | ast.Call) -> Source | None:
    """With an element of a container in place of ``[a, b][0]``, ``{"a": a}["a"]`` and ``next(iter([a]))``."""
    element = _picked(node) if isinstance(node, ast.Subscript) else _first(node)
    return source.edited({number_of(node): lambda _: element}) if element is not None else None


def _picked(node: ast.Subscript) -> ast.expr | None:
    held, wanted = node.value, node.slice.value if isinstance(node.slice, ast.Constant) else None
    if isinstance(held, LISTS):
        is_place = isinstance(wanted, int) and -len(held.elts) <= wanted < len(held.elts)
        return held.elts[wanted] if is_place else held.elts[0] if len(held.elts) == 1 else None  # type: ignore[index]
    if isinstance(held, ast.Dict):
        values = [
            v for k, v in zip(held.keys, held.values, strict=True) if isinstance(k, ast.Constant) and k.value == wanted
        ]
        return next(iter(values or (held.values if len(held.values) == 1 else ())), None)
    return None


def _first(call: ast.Call) -> ast.expr | None:
    inner = call.args[0] if full_name(call.func, {}) == "next" and call.args else None
    if not isinstance(inner, ast.Call) or full_name(inner.func, {}) != "iter" or len(inner.args) != 1:
        return None
    held = inner.args[0]
    return held.elts[0] if isinstance(held, LISTS) and held.elts else None


# calls -------------------------------------------------------------------------------------------------------------------


def _called_itself(source: Source, node: ast.Subscript | ast.Call) -> Source | None:
    """With ``module(x)`` in place of ``functional_call(module, parameters, x)``."""
    if not isinstance(node, ast.Call) or full_name(node.func, {}).rpartition(".")[2] != "functional_call":
        return None
    if len(node.args) != 3 or any(isinstance(one, ast.Starred) for one in node.args):
        return None
    module, _, given = node.args
    arguments = given.elts if isinstance(given, ast.Tuple) else [given]
    return source.edited({number_of(node): lambda _: ast.Call(module, arguments, node.keywords)})


# names -------------------------------------------------------------------------------------------------------------------


def _for_one_name(source: Source, assignment: ast.Assign) -> Source | None:
    """With ``b = f()[1]`` for ``a, b = f()``, if only ``b`` is read."""
    target = assignment.targets[0]
    if len(assignment.targets) > 1 or not isinstance(target, LISTS) or isinstance(assignment.value, LISTS):
        return None
    read = set(names_read(source.nodes()))
    kept = [(place, one) for place, one in enumerate(target.elts) if not isinstance(one, ast.Name) or one.id in read]
    if len(kept) != 1 or len(target.elts) < 2 or isinstance(kept[0][1], ast.Starred):
        return None
    place, name = kept[0]
    picked = ast.Subscript(assignment.value, ast.Constant(place), ast.Load())
    return source.edited({number_of(assignment): lambda _: ast.Assign([name], picked)})


def _with_fields(source: Source, made: ast.ClassDef) -> Iterator[Source | None]:
    """With the value of a field, such as one of a dataclass, in place of reads of an attribute of its name."""
    for statement in made.body:
        target = bound_name(statement)
        value = statement.value if isinstance(statement, ast.Assign | ast.AnnAssign) else None
        if (
            target is None
            or value is None
            or not all(isinstance(n, ast.Constant | ast.UnaryOp | ast.USub) for n in ast.walk(value))
        ):
            continue
        named = [n for n in source.nodes() if isinstance(n, ast.Attribute) and n.attr == target]
        yield _with_value(source, named, value, statement)


def _with_settings(source: Source, made: ast.ClassDef) -> Iterator[Source | None]:
    """With the value that a constructor assigns to an attribute in place of its reads, if it is a constant or names a
    function.
    """
    constructor = next((m for m in made.body if isinstance(m, ast.FunctionDef) and m.name == "__init__"), None)
    given = {n.arg for n in ast.walk(constructor.args) if isinstance(n, ast.arg)} if constructor is not None else set()
    for statement in constructor.body if constructor is not None else ():
        target = statement.targets[0] if isinstance(statement, ast.Assign) and len(statement.targets) == 1 else None
        if not isinstance(statement, ast.Assign) or not isinstance(target, ast.Attribute):
            continue
        value = statement.value
        is_simple = isinstance(value, ast.Constant | ast.Lambda) or full_name(value, {})[:1] not in ("", ".")
        is_open = any(isinstance(n, ast.Name) and n.id in given for n in ast.walk(value))
        uses = [n for n in source.nodes() if isinstance(n, ast.Attribute) and n.attr == target.attr and n is not target]
        if is_simple and not is_open:
            yield _with_value(source, uses, value, statement)


def _with_value(source: Source, reads: Sequence[ast.Attribute], value: ast.expr, setting: ast.stmt) -> Source | None:
    """With a value in place of these attributes, without the statement that sets it.

    None if one of them is set, or there are none.
    """
    if not reads or not all(isinstance(n.ctx, ast.Load) for n in reads):
        return None
    edits: dict[int, Edit] = {number_of(n): lambda _: copy.deepcopy(value) for n in reads}
    return source.edited({**edits, number_of(setting): lambda _: None})
