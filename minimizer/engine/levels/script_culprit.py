"""Names the culprit of a reduced script whose graphs were not reduced: operator and module, or construct, and its line."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from minimizer.engine.child.outcome import Outcome, PlacedOperator
from minimizer.engine.levels.from_outcomes import BOOKKEEPING
from minimizer.engine.user_script.constructs import construct_of, context_of
from minimizer.engine.user_script.syntax import names_stored
from minimizer.report.culprit import Culprit, Source

STAGE = re.compile(
    r"^torch\.(compile|testing|(tensor|randn?|ones|zeros|arange|full|randint|manual_seed|empty)$)"
    r"|^(super|__init__|print|range|len|clone|detach|compile|apply)$|^[A-Z]\w*$|\.[A-Z]\w*$"
)
"""Matches mere setup: names that make tensors and modules, compile, or print."""
HIGHER_ORDER = "higher_order."
MOST_NAMED = 2


@dataclass(frozen=True)
class Observed:
    """Runs of a script, before and after its reduction, that observe the compiled functions; ``line``: the raising line
    of each.

    ``source_of`` is the user's line for one of the unreduced script, whose numbers a reduced tree keeps.
    """

    before: Outcome
    after: Outcome
    line: int | None
    line_after: int | None
    source_of: Callable[[int], Source | None]


def culprit_of(tree: ast.Module, seen: Observed, message: str, circumstances: Sequence[str] = ()) -> Culprit:
    """The culprit of a reduced script.

    ``message``: that of the failure. ``circumstances``: further conditions of the failure, such as a graph break.
    """
    ops = operators_in(seen.after.ops)
    operator = _operator(seen, is_inside=_raises_inside(tree, seen.line))
    if operator is not None and operator.startswith(HIGHER_ORDER):
        return _at_operator(operator, seen)
    construct = construct_of(tree, message)
    if construct is None and operator is not None and not circumstances:
        return _at_operator(operator, seen)
    construct = construct or context_of(tree)
    if construct is not None:
        what = " and ".join([construct.what, *circumstances])
        return Culprit(what=what, ops=ops, source=seen.source_of(construct.line))
    return Culprit(what=together(tree, circumstances), ops=ops)


def _raises_inside(tree: ast.Module, line: int | None) -> bool:
    """Whether the raising line is inside a function that the reduced script still has, rather than a call of it."""
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.Lambda)]
    bodies = [body if isinstance(body, list) else [body] for body in (node.body for node in functions)]
    return any(getattr(node, "lineno", None) == line for body in bodies for part in body for node in ast.walk(part))


def _operator(seen: Observed, *, is_inside: bool) -> str | None:
    """The operator at fault: a higher-order one, the only one of the raising line, or the only one left.

    None if several qualify, or if a line of a compiled function raised that calls none.
    """
    higher = [name for name in seen.after.ops if name.startswith(HIGHER_ORDER)]
    at_line = [call.op for call in seen.after.placed if call.line and call.line == seen.line_after]
    elsewhere = [] if is_inside and seen.line is not None else operators_in(seen.after.ops)
    for names in (higher, operators_in(list(dict.fromkeys(at_line))), elsewhere):
        if len(names) == 1:
            return names[0]
    return None


def operators_in(names: Sequence[str]) -> list[str]:
    """The operators without those that only move or view data, if others remain."""
    return [name for name in names if name not in BOOKKEEPING] or [*names]


def _at_operator(operator: str, seen: Observed) -> Culprit:
    """The culprit for an operator, placed in the unreduced script: at the raising line if that calls it, else at its
    first call.
    """
    calls = [call for call in seen.before.placed if call.op == operator and call.line]
    raised = [call for call in calls if call.line == seen.line]
    place = next(iter(raised or calls), PlacedOperator(op=operator))
    source = seen.source_of(place.line) if place.line else None
    return Culprit(ops=[operator], module=place.module, source=source)


def together(tree: ast.Module, circumstances: Sequence[str]) -> str:
    """The calls and decorators of a reduced script without mere setup (`STAGE`), and its ``circumstances``."""
    own = {n.name for n in ast.walk(tree) if isinstance(n, ast.FunctionDef | ast.ClassDef)}
    own |= {n.arg for n in ast.walk(tree) if isinstance(n, ast.arg)}
    own |= set(names_stored(ast.walk(tree)))
    own |= {n.attr for n in ast.walk(tree) if isinstance(n, ast.Attribute) and isinstance(n.ctx, ast.Store)}
    called = [n.func for n in ast.walk(tree) if isinstance(n, ast.Call)]
    called += [d for n in ast.walk(tree) for d in getattr(n, "decorator_list", ()) if not isinstance(d, ast.Call)]
    calls = [call for call in map(ast.unparse, called) if len(call) < 60]
    names = [call if call.startswith("torch.") else call.rpartition(".")[2] for call in calls]
    told = dict.fromkeys(n for n in names if n not in own and n.isprintable() and not STAGE.search(n) and "(" not in n)
    words = [*list(told)[:MOST_NAMED], *circumstances]
    return " and ".join(filter(None, [", ".join(words[:-1]), *words[-1:]])) or "this script"
