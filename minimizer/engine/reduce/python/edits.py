"""Single edits of a script: nodes that may be removed, and parts of a node that may replace it."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from minimizer.engine.reduce.python.source import BODIES, Edit, Replacement, Source, number_of

LISTS = (
    "args", "keywords", "elts", "names", "decorator_list", "bases", "items", "handlers", "values", "ifs", "generators", "cases",
)  # fmt: skip
"""Fields with lists of removable nodes."""
CALLED = ("__call__", "forward")
"""The methods by which an object itself is called, the one that wins first."""


def items(source: Source) -> Iterator[int]:
    """The removable nodes that are not statements: arguments, keywords, elements, entries, decorators, imported names.

    Not ``@staticmethod`` and the like: a method called through its class works without it, but reads oddly.
    """
    for node in source.nodes():
        for field in LISTS:
            value = getattr(node, field, None)
            if isinstance(value, list) and not isinstance(node, ast.arguments):
                yield from (number_of(item) for item in value if isinstance(item, ast.AST) and not _is_of_method(item))


def _is_of_method(node: ast.AST) -> bool:
    return isinstance(node, ast.Name) and node.id in ("staticmethod", "classmethod")


def positions(source: Source) -> list[tuple[int, int]]:
    """Pairs (length, index) of tuples, edited together: one function returns a tuple that another unpacks."""
    lengths = {len(n.elts) for n in source.nodes() if isinstance(n, ast.Tuple)}
    return [(length, index) for length in sorted(lengths, reverse=True) if length > 1 for index in range(length)]


def without_position(source: Source, length: int, index: int) -> Source | None:
    """The script without one position of all tuples of a length; a tuple of one element becomes that element."""

    def shorter(node: ast.AST) -> Replacement:
        assert isinstance(node, ast.Tuple)
        kept = [element for position, element in enumerate(node.elts) if position != index]
        return kept[0] if len(kept) == 1 else ast.Tuple(elts=kept, ctx=node.ctx)

    tuples = [number_of(n) for n in source.nodes() if isinstance(n, ast.Tuple) and len(n.elts) == length]
    return source.edited(dict.fromkeys(tuples, shorter))


def annotated(source: Source) -> list[int]:
    """Annotations of parameters and results, then of assignments; last of class fields, which a dataclass needs."""
    nodes = list(source.nodes())
    fields = {id(n) for owner in nodes if isinstance(owner, ast.ClassDef) for n in owner.body}
    assigned = [n for n in nodes if isinstance(n, ast.AnnAssign) and n.value is not None]
    given = [n.annotation if isinstance(n, ast.arg) else getattr(n, "returns", None) for n in nodes]
    return [number_of(n) for n in [*given, *sorted(assigned, key=lambda n: id(n) in fields)] if n is not None]


def without_annotations(source: Source, numbers: Sequence[int]) -> Source | None:
    """The script without these annotations of parameters, results and assignments."""

    def plain(node: ast.AST) -> Replacement:
        if isinstance(node, ast.AnnAssign) and node.value is not None:
            return ast.Assign(targets=[node.target], value=node.value)
        return None

    return source.edited(dict.fromkeys(numbers, plain))


def parameters(source: Source) -> list[tuple[int, int]]:
    """Pairs (function, parameter) of all parameters but ``self``."""
    return [
        (number_of(node), number_of(parameter))
        for node in source.nodes()
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        for parameter in _parameters(node.args)[_own(source, node) :]
    ]


def without_parameter(source: Source, number: int, parameter: int) -> Source | None:
    """The script without a parameter of a function, and without its arguments in calls.

    Also in calls of what the function was made into: ``g`` and ``torch.compile(f)`` after ``g = torch.compile(f)``.
    """
    function = next(n for n in source.nodes() if number_of(n) == number)
    assert isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef)
    own = _own(source, function)
    owner = _class_of(source, function)
    place, name = next((i, p.arg) for i, p in enumerate(_parameters(function.args)) if number_of(p) == parameter)
    is_positional = place < len(function.args.posonlyargs + function.args.args)
    made, names = set[str](), {function.name}
    if owner is not None and function.name == "__init__":
        names = {function.name, owner}
    elif owner is not None and function.name in CALLED:
        made = _made_of(source, {owner}, results=set())
    else:
        made = _made_of(source, {function.name}, results={function.name})
    names |= made - {owner}

    def shorter(node: ast.AST) -> Replacement:
        assert isinstance(node, ast.Call)
        node.args = [a for i, a in enumerate(node.args) if i != place - own or not is_positional]
        node.keywords = [k for k in node.keywords if k.arg != name]
        return node

    def calls_it(call: ast.Call) -> bool:
        return _called(call) in names or (isinstance(call.func, ast.Call) and bool(_mentioned(call.func) & made))

    calls = [n for n in source.nodes() if isinstance(n, ast.Call) and calls_it(n)]
    inner = {number_of(n) for call in calls for a in call.args for n in ast.walk(a)}  # an edit hides what is inside
    edits: dict[int, Edit] = {number_of(n): shorter for n in calls if number_of(n) not in inner}
    return source.edited({**edits, number_of(function.args): lambda node: _without(node, parameter)})


def _made_of(source: Source, makers: set[str], *, results: set[str]) -> set[str]:
    """These functions or classes, and the names and attributes that hold what was made of them, in one step or several.

    ``results``: those whose calls make no such thing.
    """
    known = set(makers)
    while True:
        found = {
            _name(target)
            for n in source.nodes()
            if isinstance(n, ast.Assign) and _holds(n.value, known, results | known - makers)
            for target in n.targets
        } - {""}
        if found <= known:
            return known
        known |= found


def _holds(value: ast.expr, known: set[str], results: set[str]) -> bool:
    """Whether a value is one of these, or what is made of one by a call, such as ``torch.compile(f)``; not the result of one."""
    if not isinstance(value, ast.Call):
        return _name(value) in known
    given = [*value.args, *(keyword.value for keyword in value.keywords)]
    return _called(value) not in results and (
        _called(value) in known or any(_holds(one, known, results) for one in given)
    )


def _mentioned(node: ast.AST) -> set[str]:
    """The names and attributes in an expression."""
    return {_name(n) for n in ast.walk(node)} - {""}


def _name(node: ast.AST) -> str:
    """A name, or that of an attribute; empty for other nodes."""
    return node.id if isinstance(node, ast.Name) else getattr(node, "attr", "")


def _parameters(arguments: ast.arguments) -> list[ast.arg]:
    """All parameters of a function, positional ones first."""
    rest = (arguments.vararg, arguments.kwarg)
    return [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, *(p for p in rest if p is not None)]


def _without(node: ast.AST, parameter: int) -> ast.arguments:
    """The parameters without one of them and its default."""
    assert isinstance(node, ast.arguments)

    def stays(one: ast.arg | None) -> bool:
        return one is not None and number_of(one) != parameter

    last = (node.posonlyargs + node.args)[::-1]
    return ast.arguments(
        posonlyargs=list(filter(stays, node.posonlyargs)),
        args=list(filter(stays, node.args)),
        defaults=[d for p, d in zip(last, node.defaults[::-1], strict=False) if stays(p)][::-1],
        vararg=node.vararg if stays(node.vararg) else None,
        kwonlyargs=list(filter(stays, node.kwonlyargs)),
        kw_defaults=[d for p, d in zip(node.kwonlyargs, node.kw_defaults, strict=True) if stays(p)],
        kwarg=node.kwarg if stays(node.kwarg) else None,
    )


def _own(source: Source, function: ast.stmt) -> int:
    """The number of parameters that callers do not pass: one for a method, else none."""
    return int(_class_of(source, function) is not None)


def _class_of(source: Source, function: ast.stmt) -> str | None:
    return next((n.name for n in source.nodes() if isinstance(n, ast.ClassDef) and function in n.body), None)


def _called(call: ast.Call) -> str:
    return _name(call.func)


def blocks(source: Source) -> list[tuple[int, str]]:
    """Pairs (compound statement, field) of a block that could replace its statement."""
    kinds = (ast.If, ast.For, ast.While, ast.With, ast.Try, ast.Match)
    return [
        (number_of(node), part)
        for node in source.statements
        if isinstance(node, kinds)
        for part in (*BODIES, "cases")
        if getattr(node, part, None)
    ]


def unwrapped(source: Source, parts: Sequence[tuple[int, str]]) -> Source | None:
    """The script with these compound statements replaced by one of their blocks, run once."""

    def body(part: str) -> Edit:
        def edit(node: ast.AST) -> Replacement:
            first = _first_round(node) if isinstance(node, ast.For) and part == "body" else []
            held = getattr(node, part)
            return [*first, *(held[0].body if part == "cases" else held)]

        return edit

    return source.edited({number: body(part) for number, part in parts})


def _first_round(node: ast.For) -> list[ast.stmt]:
    """The assignment to a loop's target in its first round."""
    first: ast.expr = ast.Call(
        func=ast.Name("next", ast.Load()),
        args=[ast.Call(func=ast.Name("iter", ast.Load()), args=[node.iter], keywords=[])],
        keywords=[],
    )
    if isinstance(node.iter, ast.Call) and isinstance(node.iter.func, ast.Name) and node.iter.func.id == "range":
        first = ast.Constant(0)
    elif isinstance(node.iter, ast.List | ast.Tuple) and node.iter.elts:
        first = node.iter.elts[0]
    return [ast.Assign(targets=[node.target], value=first)]


def stand_ins(source: Source) -> Iterator[tuple[int, int]]:
    """Pairs (expression, index of a part that could replace it), outermost expressions first."""
    for node in source.nodes():
        if isinstance(node, ast.expr):
            for index in range(len(_parts(node))):
                yield number_of(node), index


def empty_calls(source: Source) -> list[int]:
    """Decorators that are called without arguments, such as ``@torch.compile()``."""
    decorators = [d for n in source.nodes() for d in getattr(n, "decorator_list", ()) if isinstance(d, ast.Call)]
    return [number_of(d) for d in decorators if not d.args and not d.keywords]


def uncalled(source: Source, calls: Sequence[int]) -> Source | None:
    """The script with these calls replaced by the called function."""
    return source.edited(dict.fromkeys(calls, lambda node: node.func))  # type: ignore[attr-defined]


def with_part(source: Source, number: int, index: int) -> Source | None:
    """The script with an expression replaced by one of its parts."""

    def part(node: ast.AST) -> Replacement:
        parts = _parts(node) if isinstance(node, ast.expr) else []
        return parts[index] if index < len(parts) else node

    return source.edited({number: part})


def _parts(node: ast.expr) -> list[ast.expr]:
    """The parts of an expression that could replace it."""
    if isinstance(node, ast.Call):
        receiver = [node.func.value] if isinstance(node.func, ast.Attribute) else []
        return [*(a for a in node.args if not isinstance(a, ast.Starred)), *receiver, *(k.value for k in node.keywords)]
    if isinstance(node, ast.Lambda):
        return [node.body.func] if isinstance(node.body, ast.Call) and _takes_as_many(node.args, node.body) else []
    if isinstance(node, ast.BinOp):
        return [node.left, node.right]
    if isinstance(node, ast.UnaryOp):
        return [node.operand]
    if isinstance(node, ast.IfExp):
        return [node.body, node.orelse]
    if isinstance(node, ast.BoolOp):
        return node.values
    if isinstance(node, ast.JoinedStr):
        return [value.value for value in node.values if isinstance(value, ast.FormattedValue)]
    if isinstance(node, ast.Compare):
        return [node.left, *node.comparators]
    if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Load):
        return [node.value]
    if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load) and not isinstance(node.value, ast.Name):
        return [node.value]
    if isinstance(node, ast.List | ast.Tuple) and isinstance(node.ctx, ast.Load) and len(node.elts) == 1:
        return [e for e in node.elts if not isinstance(e, ast.Starred)]
    return []


def _takes_as_many(parameters: ast.arguments, call: ast.Call) -> bool:
    """Whether a call has as many plain arguments as these are parameters: ``lambda x: g(x)`` and ``lambda x: g(1)`` may be ``g``."""
    plain = len(_parameters(parameters)) == len(parameters.args) and not parameters.defaults and not call.keywords
    return plain and len(call.args) == len(parameters.args)


def _above_one(source: Source) -> Iterator[ast.Constant]:
    for node in source.nodes():
        value = node.value if isinstance(node, ast.Constant) else None
        if isinstance(value, int | float) and not isinstance(value, bool) and value > 1:
            yield node  # type: ignore[misc]


def numbers_in(source: Source) -> list[int | float]:
    """Distinct numbers above one in a script, largest first."""
    return sorted({node.value for node in _above_one(source)}, reverse=True)  # type: ignore[misc]


def with_number(source: Source, old: int | float, new: int | float) -> Source | None:
    """The script with a number above one replaced wherever it occurs: sizes that must agree shrink together."""
    places = [number_of(n) for n in _above_one(source) if type(n.value) is type(old) and n.value == old]
    return source.edited(dict.fromkeys(places, lambda node: ast.Constant(new)))


def literals(source: Source) -> list[int]:
    """Every single occurrence of a number above one."""
    return [number_of(node) for node in _above_one(source)]


def with_literal(source: Source, number: int, to: int | float) -> Source | None:
    """The script with another number in place of one occurrence."""
    return source.edited({number: lambda _: ast.Constant(to)})
