"""Passes that write a script in fewer statements, as a person would.

Each edit proposes candidates that the oracle has to confirm: a name, loop or function that is part of the fault stays.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Iterator

from minimizer.engine.reduce.problem import Problem
from minimizer.engine.reduce.python import inline
from minimizer.engine.reduce.python.entries import ENTRY, with_word
from minimizer.engine.reduce.python.rounds import bound, is_name, items_of, renamed
from minimizer.engine.reduce.python.source import BODIES, Edit, Replacement, Source, number_of
from minimizer.engine.user_script.statements import bound_name
from minimizer.engine.user_script.syntax import full_name, imported, names_stored

BACKEND = len(', backend="eager"')
INDENT, WIDTH = 4, 88
"""Columns by which a repro indents a line, and its longest line: a longer one is wrapped, and saves nothing."""
MOST_ROUNDS = 4
"""Number of first rounds of a loop that are each tried in its place; the last round is tried too.

A loop of at most this many is also written out.
"""


def statements(problem: Problem[Source]) -> None:
    """Write the script in fewer statements, until no such edit is accepted."""
    problem.exhaust(_fitting, "layout")


def _fitting(source: Source) -> Iterator[Source | None]:
    """The candidates whose lines are no longer than `WIDTH`, or than the script's own longest."""
    width = max(WIDTH, _width(source))
    return (c for c in _fewer_statements(source) if c is not None and _width(c) <= width)


def _width(source: Source) -> int:
    """The length of the longest line in the repro: indented, and with the backend's name."""
    return max(len(line) + INDENT + (BACKEND if ENTRY in line else 0) for line in source.text.splitlines())


def _fewer_statements(source: Source) -> Iterator[Source | None]:
    for statement in source.statements:
        if isinstance(statement, ast.For):
            yield from _one_round(source, statement)
            yield from _made_dynamic(source, statement)
            yield from _with_contents(source, statement)
        elif isinstance(statement, ast.Import | ast.ImportFrom):
            yield _qualified(source, statement)
        elif isinstance(statement, ast.Assign):
            yield _repeated(source, statement)
            yield _written_out(source, statement)
    for function in (n for n in source.nodes() if isinstance(n, ast.FunctionDef)):
        yield from _as_choices(source, function)
        yield from _as_lambdas(source, function)


# loops -------------------------------------------------------------------------------------------------------------------


def loops(source: Source) -> list[int]:
    """The loops of a script, inner ones first."""
    return [number_of(statement) for statement in reversed(source.statements) if isinstance(statement, ast.For)]


def unrolled(source: Source, number: int) -> Source | None:
    """With its rounds one after another in place of a loop.

    None for many rounds, or for values that are not spelled out.
    """
    loop = next((one for one in source.statements if number_of(one) == number), None)
    if not isinstance(loop, ast.For) or _is_left_early(loop):
        return None
    items = items_of(source, loop.iter)
    rounds = [bound(loop.target, items.at(index)) for index in range(min(items.count, MOST_ROUNDS + 1))]
    if not 1 < len(rounds) <= MOST_ROUNDS:
        return None
    written = [renamed(one, values) for values in rounds if values is not None for one in loop.body]
    return None if None in rounds else source.edited({number: lambda _: written})


def _is_left_early(loop: ast.For) -> bool:
    return bool(loop.orelse) or any(isinstance(n, ast.Break | ast.Continue) for n in ast.walk(loop))


def _one_round(source: Source, loop: ast.For) -> Iterator[Source]:
    """With a single round in place of a loop, where the script spells out the values it iterates over."""
    if _is_left_early(loop):
        return
    items = items_of(source, loop.iter)
    for number in [*range(items.count)[:MOST_ROUNDS], *range(items.count)[MOST_ROUNDS:][-1:]]:
        item = items.at(number)
        values = bound(loop.target, item)
        bodies = [[renamed(statement, values) for statement in loop.body]] if values is not None else []
        for body in (*bodies, [ast.Assign(targets=[loop.target], value=item), *loop.body]):
            if (candidate := source.edited({number_of(loop): lambda _, body=body: body})) is not None:  # type: ignore[misc]
                yield candidate


def _made_dynamic(source: Source, loop: ast.For) -> Iterator[Source | None]:
    """With ``dynamic=True`` in place of a loop whose later rounds make the sizes symbolic."""
    for unrolled in list(_one_round(source, loop))[-2:]:
        names = imported(unrolled.tree)
        calls = {id(n.func): n for n in unrolled.nodes() if isinstance(n, ast.Call)}
        entries = [n for n in unrolled.nodes() if isinstance(n, ast.expr) and full_name(n, names) == ENTRY]
        places = [calls.get(id(entry), entry) for entry in entries]
        yield unrolled.edited({number_of(p): lambda node: with_word(node, "dynamic", True) for p in places})


def _with_contents(source: Source, loop: ast.For) -> Iterator[Source | None]:
    """With a container that is not empty from the start, in place of a loop whose earlier rounds fill it."""
    for made in source.statements:
        value = made.value if isinstance(made, ast.Assign) else None
        is_list = isinstance(value, ast.List) and not value.elts
        is_deque = isinstance(value, ast.Call) and not value.args and ast.unparse(value.func).endswith("deque")
        if value is None or not (is_list or is_deque):
            continue
        one = ast.List([ast.Constant(1)], ast.Load())
        full = ast.Call(value.func, [one], value.keywords) if isinstance(value, ast.Call) else one
        for unrolled in list(_one_round(source, loop))[-2:]:
            yield unrolled.edited({number_of(value): lambda _, full=full: full})  # type: ignore[misc]


# names -------------------------------------------------------------------------------------------------------------------


def _qualified(source: Source, statement: ast.Import | ast.ImportFrom) -> Source | None:
    """With full names in place of an import, where the package is imported as well: ``torch.nn`` for ``nn``."""
    if isinstance(statement, ast.ImportFrom) and (statement.level or not statement.module):
        return None
    front = f"{statement.module}." if isinstance(statement, ast.ImportFrom) else ""
    full = {alias.asname or alias.name: front + alias.name for alias in statement.names}
    packages = {
        alias.name
        for other in source.tree.body
        if isinstance(other, ast.Import) and other is not statement
        for alias in other.names
        if alias.asname is None
    }
    is_known = all(name.partition(".")[0] in packages and "*" not in name for name in full.values())
    bound = {n.id for n in source.nodes() if isinstance(n, ast.Name) and not isinstance(n.ctx, ast.Load)}
    bound |= {n.arg for n in source.nodes() if isinstance(n, ast.arg)}
    if not is_known or bound & full.keys():
        return None
    edits: dict[int, Edit] = {
        number_of(n): lambda _, name=n.id: ast.parse(full[name], mode="eval").body  # type: ignore[misc]
        for n in source.nodes()
        if isinstance(n, ast.Name) and n.id in full
    }
    return source.edited({**edits, number_of(statement): lambda _: None})


def _repeated(source: Source, assignment: ast.Assign) -> Source | None:
    """With a call of constant arguments, such as ``torch.ones(1)``, repeated wherever its result is read."""
    value, name = assignment.value, bound_name(assignment)
    if not isinstance(value, ast.Call) or name is None:
        return None
    local = {id(n) for function in source.nodes() if name in _own_names(function) for n in ast.walk(function)}
    uses = [n for n in source.nodes() if isinstance(n, ast.Name) and n.id == name and id(n) not in local]
    reads = [n for n in uses if isinstance(n.ctx, ast.Load)]
    is_plain = all(isinstance(part, ast.Constant) for argument in value.args for part in ast.walk(argument))
    is_entry = full_name(value.func, imported(source.tree)) == ENTRY
    if not is_plain or value.keywords or is_entry or len(uses) != len(reads) + 1:
        return None
    edits: dict[int, Edit] = {number_of(n): lambda _: copy.deepcopy(value) for n in reads}
    return source.edited({**edits, number_of(assignment): lambda _: None})


def _own_names(node: ast.AST) -> set[str]:
    """Parameters and variables of a function; empty for other nodes."""
    if not isinstance(node, ast.FunctionDef | ast.Lambda):
        return set()
    stored = set(names_stored(ast.walk(node)))
    outer = {name for n in ast.walk(node) if isinstance(n, ast.Global | ast.Nonlocal) for name in n.names}
    return (stored - outer) | {n.arg for n in ast.walk(node.args) if isinstance(n, ast.arg)}


def _written_out(source: Source, assignment: ast.Assign) -> Source | None:
    """With a value in place of its name in the next statement, if only that reads it."""
    name = bound_name(assignment)
    block = next((b for n in source.nodes() for b in _blocks(n) if assignment in b), None)
    if block is None or name is None:
        return None
    after = block[block.index(assignment) + 1 :]
    if not after or not isinstance(after[0], ast.Return | ast.Assign | ast.Expr):
        return None
    end = next((place for place, one in enumerate(after, 1) if _ends(one, name)), None)
    rest = after[:end] if end is not None or block is not source.tree.body else block
    uses = [n for s in rest for n in ast.walk(s) if is_name(n, name) and isinstance(n.ctx, ast.Load)]  # type: ignore[attr-defined]
    if len(uses) != 1 or uses[0] not in ast.walk(after[0]):
        return None
    return source.edited({number_of(uses[0]): lambda _: assignment.value, number_of(assignment): lambda _: None})


def _ends(statement: ast.stmt, name: str) -> bool:
    """Whether no code after a statement can read an earlier value of a name."""
    bound = statement.targets if isinstance(statement, ast.Assign) else []
    return isinstance(statement, ast.Return) or any(is_name(target, name) for target in bound)


# functions ---------------------------------------------------------------------------------------------------------------


def _as_choices(source: Source, function: ast.FunctionDef) -> Iterator[Source | None]:
    """With ``return a if c else b`` for a branch that returns, and ``y = a if c else y`` for one that assigns."""
    for branch in (n for n in ast.walk(function) if isinstance(n, ast.If) and len(n.body) == 1):
        block = next((b for n in ast.walk(function) for b in _blocks(n) if branch in b), None)
        if block is None:
            continue
        first, rest = branch.body[0], branch.orelse
        after = block[block.index(branch) + 1 :]
        if isinstance(first, ast.Return) and first.value is not None:
            other = rest if len(rest) == 1 else after[:1] if not rest else []
            if other and isinstance(other[0], ast.Return) and other[0].value is not None:
                choice = ast.Return(ast.IfExp(branch.test, first.value, other[0].value))
                gone: dict[int, Edit] = {} if rest else {number_of(other[0]): lambda _: None}
                yield source.edited({**gone, number_of(branch): lambda _, choice=choice: choice})  # type: ignore[misc]
        elif isinstance(first, ast.Assign) and isinstance(first.targets[0], ast.Name) and len(first.targets) == 1:
            name = first.targets[0].id
            otherwise: ast.expr = ast.Name(name, ast.Load())
            if rest:
                second = rest[0]
                if (
                    len(rest) > 1
                    or not isinstance(second, ast.Assign)
                    or ast.dump(second.targets[0]) != ast.dump(first.targets[0])
                ):
                    continue
                otherwise = second.value
            chosen = ast.Assign(first.targets, ast.IfExp(branch.test, first.value, otherwise))
            yield source.edited({number_of(branch): lambda _, chosen=chosen: chosen})  # type: ignore[misc]


def _blocks(node: ast.AST) -> Iterator[list[ast.stmt]]:
    """The lists of statements directly inside a node."""
    for part in BODIES:
        block = getattr(node, part, None)
        if isinstance(block, list):
            yield block


def _as_lambdas(source: Source, function: ast.FunctionDef) -> Iterator[Source | None]:
    """With a function of one expression as a ``lambda``; in an overlong line, as few names as needed are shortened."""
    as_it_is = _as_lambda(source, function)
    yield as_it_is
    if as_it_is is None or _width(as_it_is) <= WIDTH:
        return
    yield _compiled_in_front(source, function)
    names, words = _short_names(source, function), _short_words(source)
    for word in ["", *sorted(words, key=len, reverse=True)]:
        names |= {word: words[word]} if word else {}
        renaming: dict[int, Edit] = {
            number_of(node): _with_name(names[text]) for node in as_it_is.nodes() if (text := _text(node)) in names
        }
        renamed_source = as_it_is.edited(renaming)
        yield renamed_source
        if renamed_source is not None and _width(renamed_source) <= WIDTH:
            return


def _as_lambda(source: Source, function: ast.FunctionDef) -> Source | None:
    """With a function as a ``lambda``, at its only use or as argument of its decorator; None if it cannot be one."""
    expression = _expression(function)
    if expression is None or len(function.decorator_list) > 1:
        return None
    if not function.decorator_list:
        use = inline.only_use(source, function.name)
        edits: dict[int, Edit] = {number_of(function): lambda _: None}
        return source.edited({number_of(use): lambda _: expression, **edits}) if use is not None else None
    entry = function.decorator_list[0]
    called = entry.func if isinstance(entry, ast.Call) else entry
    if full_name(called, imported(source.tree)) != ENTRY:
        return None
    words = entry.keywords if isinstance(entry, ast.Call) else []
    made = ast.Call(func=called, args=[expression], keywords=words)
    return source.edited({number_of(function): lambda _: ast.Assign([ast.Name(function.name, ast.Store())], made)})


def _compiled_in_front(source: Source, function: ast.FunctionDef) -> Source | None:
    """With ``f = torch.compile(lambda ...)`` in place of a function that is compiled inside of an expression."""
    expression, use = _expression(function), inline.only_use(source, function.name)
    names = imported(source.tree)
    entry = next((n for n in source.nodes() if isinstance(n, ast.Call) and n.args[:1] == [use]), None)
    if expression is None or function.decorator_list or entry is None or full_name(entry.func, names) != ENTRY:
        return None
    made = ast.Call(func=entry.func, args=[expression, *entry.args[1:]], keywords=entry.keywords)
    return source.edited(
        {
            number_of(function): lambda _: ast.Assign([ast.Name(function.name, ast.Store())], made),
            number_of(entry): lambda _: ast.Name(function.name, ast.Load()),
        }
    )


def _expression(function: ast.FunctionDef) -> ast.Lambda | None:
    """A function without its decorators as a ``lambda``; None if it cannot be one."""
    plain = copy.copy(function)
    plain.decorator_list = []
    first = plain.body[0]
    if isinstance(first, ast.Expr):
        plain.body = [ast.Return(first.value), *plain.body[1:]]
    return inline.as_lambda(plain)


def _short_names(source: Source, function: ast.FunctionDef) -> dict[str, str]:
    """Conventional short names for a function (``f``) and its parameters (``x``, ``y``, …), where they are free."""
    taken = set(map(_text, source.nodes()))
    names = zip([function.name, *(p.arg for p in function.args.args)], ("f", *"xyzuvw"), strict=False)
    return {name: short for name, short in names if short not in taken and len(name) > 1}


def _short_words(source: Source) -> dict[str, str]:
    """Single letters for the script's own variables, and for strings such as keys, whose text does not matter."""
    taken = set(map(_text, source.nodes()))
    stored = names_stored(source.nodes())
    words = [n.value for n in source.nodes() if isinstance(n, ast.Constant) and isinstance(n.value, str)]
    letters = (letter for letter in "abcdeghijklmnopqrst" if letter not in taken)
    return dict(zip(dict.fromkeys(word for word in [*stored, *words] if len(word) > 1), letters, strict=False))


def _text(node: ast.AST) -> str:
    """The text of a name, a parameter or a string constant; empty for other nodes."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.arg):
        return node.arg
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""


def _with_name(name: str) -> Edit:
    def renamed_node(node: ast.AST) -> Replacement:
        if isinstance(node, ast.Name):
            return ast.Name(name, node.ctx)
        return ast.arg(name) if isinstance(node, ast.arg) else ast.Constant(name)

    return renamed_node
