"""Edits of the user's script that may remedy a graph break or a recompile, each as the whole edited text.

An edit that the script's form does not allow is left out: nothing is guessed.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Literal, NamedTuple

from minimizer.engine.advice.guards import guard_of
from minimizer.engine.advice.marked_dimensions import mark_dynamic
from minimizer.engine.advice.memory import BUDGETS
from minimizer.engine.advice.regional import each_block
from minimizer.engine.advice.rules import Cause
from minimizer.engine.diagnose.paste import added_argument, disable, paste
from minimizer.engine.user_script.plain_function import plain_function_at
from minimizer.engine.user_script.statements import span, with_text
from minimizer.engine.user_script.syntax import full_name, imported

Lowers = Literal[
    "graph breaks per call",
    "functions left to eager",
    "recompiles",
    "functions past the limit",
    "s of compiling",
    "MB kept for the backward",
]
NAMED = re.compile(r"\btorch\._dynamo\.(?:config\.)?(\w+)(?: ?= ?|` to `)True\b")
"""Matches a setting advised by Dynamo itself, in its message for a break or a guard."""
HARMFUL = ("suppress_errors",)
"""Settings that hide the problem they are advised for."""
SIZES = re.compile(r"size mismatch at index|\.size\(\)\[")
LEARNING_RATE = re.compile(r"param_groups\[\d+\]\['lr'\]")
PRINT = re.compile(r"builtin (?:operator )?`?print`?", re.IGNORECASE)
COPY = re.compile(r"copy\.deepcopy a tensor")
OF_VALUES = re.compile(
    r"generic_jump|data-dependent|data dependent operator|Tensor\.item\(\)|capture_scalar_outputs", re.IGNORECASE
)
"""Matches reasons of a break that a branch on the values of a tensor has."""
LOGGER = re.compile(r"logging\.Logger")
OPTIMIZER = re.compile(r"torch\.optim\.[A-Z]\w*")
LOG_METHODS = ("debug", "info", "warning", "error", "critical", "exception", "log")
EACH_VARIANT = "Each variant is compiled then: this is worth it only where their number is small and does not grow."
SPECIALIZED = (
    "Where the function needs a size as a number, such as for a loop over it, each version stays for one size."
)
LIMIT = 64
"""A recompile limit above the default of eight; a program with more variants should not raise it further."""


@dataclass(frozen=True)
class Edit:
    """A change of the script; ``what``: in words. ``lowers``: the figure that it should lower.

    ``computes_otherwise``: it may change results, so it helps only if something shows that it does not. ``reorders``:
    it moves printed output. ``but``: why it is no remedy by itself, whatever it lowers. ``if_useless``: what to know if it
    lowers nothing.
    """

    what: str
    text: str
    lowers: Lowers
    computes_otherwise: bool = False
    reorders: bool = False
    but: str = ""
    if_useless: str = ""


class Way(NamedTuple):
    """An `Edit` that may not be possible: then its text is None."""

    what: str
    text: str | None
    lowers: Lowers
    computes_otherwise: bool = False
    reorders: bool = False
    but: str = ""
    if_useless: str = ""


def edits(text: str, cause: Cause, name: str) -> Iterator[Edit]:
    """The changes of the script ``name`` that may help, the smallest first; none if our own Python cannot parse it."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return
    ways: Iterable[Way] = ()
    if cause.finding.kind == "recompiles":
        ways = _of_recompiles(text, tree, cause)
    elif cause.finding.kind == "graph_breaks":
        ways = _of_breaks(text, tree, cause, name)
    elif cause.finding.kind == "compile_time":
        what = "Compiling equal blocks one by one" if cause.blocks else "Compiling what is called repeatedly alone"
        ways = [Way(what, each_block(text, tree, cause.blocks, cause.called), "s of compiling")]
    elif cause.finding.kind == "memory":
        ways = _of_memory(text)
    for way in ways:
        if way.text is not None and way.text != text and _is_python(way.text):
            yield Edit(way.what, way.text, *way[2:])


def _of_recompiles(text: str, tree: ast.Module, cause: Cause) -> Iterator[Way]:
    guards = [guard_of(line) for line in cause.said.splitlines()]
    if any(LEARNING_RATE.search(guard) for guard in guards):
        yield Way(
            "A learning rate in a tensor", tensor_learning_rate(text, tree), "recompiles", computes_otherwise=True
        )
    elif any(SIZES.search(guard) for guard in guards):
        yield Way("`mark_dynamic`", mark_dynamic(text, tree, cause.said, cause.function_line), "recompiles")
        yield Way("`dynamic=True`", dynamic(text, tree), "recompiles", if_useless=SPECIALIZED)
    yield from _settings(text, cause.said, "recompiles")
    if cause.is_refused:
        setting = f"torch._dynamo.config.recompile_limit = {LIMIT}"
        yield Way(
            f"A recompile limit of {LIMIT}", paste(text, setting).text, "functions past the limit", but=EACH_VARIANT
        )


def _of_breaks(text: str, tree: ast.Module, cause: Cause, name: str) -> Iterator[Way]:
    line = cause.place.line if cause.place is not None and cause.place.file == name else 0
    lowers: Lowers = "graph breaks per call"
    if PRINT.search(cause.said):
        setting = "torch._dynamo.config.reorderable_logging_functions.add(print)"
        yield Way("Prints that wait for the end of the graph", paste(text, setting).text, lowers, reorders=True)
        if (joined := one_string(text, tree, line)) is not None:
            what = "A print of one string that waits for the end of the graph"
            yield Way(what, paste(joined, setting).text, lowers, reorders=True)
    # Logs of a function called by the compiled one would be lost, and nothing here observes logs.
    if LOGGER.search(cause.said) and len(cause.finding.stack) < 2 and (method := _logger(tree, line)):
        setting = f"torch._dynamo.config.reorderable_logging_functions.add({method})"
        yield Way("Log lines that wait for the end of the graph", paste(text, setting).text, lowers, reorders=True)
    if OF_VALUES.search(cause.said):
        yield Way("`torch.where` in the place of the branch", where(text, tree, line), lowers, computes_otherwise=True)
    if COPY.search(cause.said):
        yield Way("`clone` in the place of `copy.deepcopy`", cloned(text, tree, line), lowers, computes_otherwise=True)
    yield from _settings(text, cause.said, lowers)
    if cause.is_whole and len(cause.finding.stack) > 1 and (called := plain_function_at(tree, line)) is not None:
        what = f"`torch.compiler.disable` on `{called.name}`"
        yield Way(what, disable(text, tree, called).text, "functions left to eager")


def _of_memory(text: str) -> Iterator[Way]:
    for budget in BUDGETS:
        setting = f"torch._functorch.config.activation_memory_budget = {budget}"
        changed = paste(text, f"import torch._functorch.config\n{setting}").text
        yield Way(f"`{setting}`", changed, "MB kept for the backward")


def _settings(text: str, said: str, lowers: Lowers) -> Iterator[Way]:
    """The settings that Dynamo's message advises."""
    for name in dict.fromkeys(NAMED.findall(said)):
        setting = f"torch._dynamo.config.{name}"
        if name not in HARMFUL:
            yield Way(f"`{setting} = True`", paste(text, f"{setting} = True").text, lowers)


# compile calls and optimizers -----------------------------------------------------------------------------------------


def dynamic(text: str, tree: ast.Module) -> str | None:
    """``dynamic=True`` at every ``torch.compile``; None if there is none, or each has it."""
    names, places = imported(tree), list[tuple[int, int, str]]()
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and _compiles(node.func, names, takes_nothing=not node.args):
            given = next((keyword.value for keyword in node.keywords if keyword.arg == "dynamic"), None)
            if any(keyword.arg is None for keyword in node.keywords):
                continue
            if given is None:
                place, added = added_argument(text, node, "dynamic=True")
                places.append((place, place, added))
            elif not (isinstance(given, ast.Constant) and given.value is True):
                places.append((*span(text, given), "True"))
        elif isinstance(node, ast.FunctionDef):
            bare = [one for one in node.decorator_list if full_name(one, names) == "torch.compile"]
            places += [
                (span(text, one)[1], span(text, one)[1], "(dynamic=True)")
                for one in bare
                if not isinstance(one, ast.Call)
            ]
    return _replaced(text, places) if places else None


def _compiles(function: ast.expr, names: dict[str, str], *, takes_nothing: bool) -> bool:
    """Whether it is ``torch.compile``, or the in-place ``compile`` method of a module (``takes_nothing`` by position)."""
    name = full_name(function, names)
    return name == "torch.compile" or (
        isinstance(function, ast.Attribute)
        and takes_nothing
        and function.attr == "compile"
        and name.partition(".")[0] not in ("re", "torch", "")
    )


def tensor_learning_rate(text: str, tree: ast.Module) -> str | None:
    """``lr=torch.tensor(…)`` for every optimizer of torch with a plain number; None if there is none.

    With ``foreach``, a tensor is accepted only with ``capturable``.
    """
    names, places = imported(tree), list[tuple[int, int, str]]()
    if names.get("torch") != "torch":
        return None
    for node in ast.walk(tree):
        if not (isinstance(node, ast.Call) and OPTIMIZER.fullmatch(full_name(node.func, names))):
            continue
        given = {keyword.arg: keyword.value for keyword in node.keywords}
        rate = given.get("lr") or (node.args[1] if len(node.args) > 1 else None)
        if rate is None or isinstance(rate, ast.Call | ast.Starred):
            continue
        begin, end = span(text, rate)
        places.append((begin, end, f"torch.tensor({text[begin:end]})"))
        foreach = given.get("foreach")
        if isinstance(foreach, ast.Constant) and foreach.value is True and "capturable" not in given:
            place, added = added_argument(text, node, "capturable=True")
            places.append((place, place, added))
    return _replaced(text, places) if places else None


def _replaced(text: str, places: list[tuple[int, int, str]]) -> str:
    """The text with replacements at some places, which do not overlap."""
    for begin, end, given in sorted(places, reverse=True):
        text = text[:begin] + given + text[end:]
    return text


# branches -------------------------------------------------------------------------------------------------------------


def where(text: str, tree: ast.Module, line: int) -> str | None:
    """``torch.where`` in place of the branch at a line.

    None unless it selects one of two values for one name, or of two returns.
    """
    if imported(tree).get("torch") != "torch":
        return None
    for body in _bodies(tree):
        for place, node in enumerate(body):
            if isinstance(node, ast.If) and node.test.lineno <= line <= (node.test.end_lineno or line):
                return _chosen(text, node, body[place + 1] if place + 1 < len(body) else None)
    shorts = [
        n for n in ast.walk(tree) if isinstance(n, ast.IfExp) and n.test.lineno <= line <= (n.test.end_lineno or line)
    ]
    if len(shorts) != 1 or (condition := _condition(text, shorts[0].test)) is None:
        return None
    (short,) = shorts
    return with_text(
        text, short, f"torch.where({condition}, {_source(text, short.body)}, {_source(text, short.orelse)})"
    )


def _chosen(text: str, node: ast.If, following: ast.stmt | None) -> str | None:
    condition = _condition(text, node.test)
    is_elif = text.startswith("elif", span(text, node)[0])  # not a statement of its own in the text
    if condition is None or is_elif or len(node.body) != 1 or len(node.orelse) > 1:
        return None
    if any(map(_works_in_place, (*node.body, *node.orelse))):
        return None
    then, otherwise = node.body[0], node.orelse[0] if node.orelse else None
    if isinstance(then, ast.Return) and then.value is not None:
        other = otherwise or following
        if not isinstance(other, ast.Return) or other.value is None:
            return None
        chosen = f"return torch.where({condition}, {_source(text, then.value)}, {_source(text, other.value)})"
        begin, end = span(text, node)[0], span(text, other)[1]
        return text[:begin] + chosen + text[end:]
    target, value = _assigned(text, then)
    if not target:
        return None
    other_target, other_value = _assigned(text, otherwise) if otherwise is not None else (target, target)
    if other_target != target:
        return None
    return with_text(text, node, f"{target} = torch.where({condition}, {value}, {other_value})")


def _assigned(text: str, node: ast.stmt) -> tuple[str, str]:
    """The name that a statement assigns to, and the value, as source.

    Empty for others, such as the in-place ``y += x``.
    """
    match node:
        case ast.Assign(targets=[ast.Name(name)], value=value):
            return name, _source(text, value)
    return "", ""


def _works_in_place(node: ast.stmt) -> bool:
    """Whether a statement calls a mutating method, such as ``x.add_(1)``: the edit would execute both branches."""
    called = (call.func for call in ast.walk(node) if isinstance(call, ast.Call))
    return any(isinstance(one, ast.Attribute) and one.attr.endswith("_") for one in called)


def _condition(text: str, test: ast.expr) -> str | None:
    """A condition as a tensor, without ``.item()`` and ``bool``; None for one that Python itself combines."""
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        inner = _condition(text, test.operand)
        return f"torch.logical_not({inner})" if inner is not None else None
    if any(isinstance(node, ast.BoolOp | ast.NamedExpr | ast.Await) for node in ast.walk(test)):
        return None
    if any(isinstance(node, ast.Call) and full_name(node.func, {}) == "int" for node in ast.walk(test)):
        return None  # it rounds
    if isinstance(test, ast.Compare) and (
        len(test.ops) > 1 or isinstance(test.ops[0], ast.Is | ast.IsNot | ast.In | ast.NotIn)
    ):
        return None
    return ast.unparse(_AsTensor().visit(ast.parse(_source(text, test), mode="eval").body))


class _AsTensor(ast.NodeTransformer):
    """Removes conversions of a tensor to a number."""

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        match node:
            case ast.Call(ast.Attribute(value=value, attr="item"), args=[], keywords=[]):
                return value
            case ast.Call(ast.Name("bool" | "float"), args=[value], keywords=[]) if not isinstance(value, ast.Constant):
                return value
        return node


def _source(text: str, node: ast.expr) -> str:
    begin, end = span(text, node)
    found = text[begin:end]
    return found if "\n" not in found else ast.unparse(node)


def _bodies(tree: ast.Module) -> Iterator[list[ast.stmt]]:
    """Every list of statements."""
    for node in ast.walk(tree):
        for field in ("body", "orelse", "finalbody"):
            body = getattr(node, field, None)
            if isinstance(body, list):
                yield body


def one_string(text: str, tree: ast.Module, line: int) -> str | None:
    """One string in place of all arguments of the ``print`` at a line, since Dynamo moves only strings.

    None without such a print.
    """
    for node in ast.walk(tree):
        match node:
            case ast.Call(ast.Name("print"), [_, _, *_] as given, []) if (
                node.lineno <= line <= (node.end_lineno or line)
            ):
                if any(isinstance(one, ast.Starred) for one in given):
                    return None
                values: list[ast.expr] = []
                for one in given:
                    values += [ast.Constant(" ")] if values else []
                    values.append(one if isinstance(one, ast.Constant) else ast.FormattedValue(one, -1))
                plain = [ast.Constant(str(one.value)) if isinstance(one, ast.Constant) else one for one in values]
                with suppress(ValueError):  # a string that our own Python cannot nest in another
                    return with_text(text, node, f"print({ast.unparse(ast.JoinedStr(plain))})")
    return None


def cloned(text: str, tree: ast.Module, line: int) -> str | None:
    """``x.detach().clone()``, which has no gradient either, in place of the only ``copy.deepcopy(x)`` at a line; None without one."""
    names = imported(tree)
    calls = [
        one for one in ast.walk(tree) if isinstance(one, ast.Call) and one.lineno <= line <= (one.end_lineno or line)
    ]
    copies = [one for one in calls if full_name(one.func, names) == "copy.deepcopy"]
    match copies:
        case [ast.Call(_, [ast.Name() | ast.Attribute() | ast.Subscript() | ast.Call() as copied], [])]:
            return with_text(text, copies[0], f"{_source(text, copied)}.detach().clone()")
    return None


def _logger(tree: ast.Module, line: int) -> str:
    """The method of a logger with a global name that is called at a line; empty if there is none."""
    bound = {
        target.id
        for node in tree.body
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    for node in ast.walk(tree):
        match node:
            case ast.Call(ast.Attribute(ast.Name(name), method)) if node.lineno <= line <= (node.end_lineno or line):
                if method in LOG_METHODS and (name in bound or name == "logging"):
                    return f"{name}.{method}"
    return ""


def _is_python(text: str) -> bool:
    try:
        ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return True
