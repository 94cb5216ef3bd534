"""Findings as failures: those of a requested kind, and the trait that a smaller script must share with one of them."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping, Sequence

from minimizer.engine.advice.guards import TENSOR
from minimizer.engine.advice.rules import EXPLANATION, UNKNOWN, Cause, causes
from minimizer.engine.child.compilations import Break, Recompile
from minimizer.engine.child.protocol import Health
from minimizer.report.finding import FindingKind
from minimizer.vocabulary import Kind

FINDINGS: Mapping[Kind, FindingKind] = {
    Kind.RECOMPILES: "recompiles",
    Kind.GRAPH_BREAK: "graph_breaks",
    Kind.COMPILE_TIME: "compile_time",
    Kind.MEMORY: "memory",
    Kind.SLOW: "slow",
}
SOURCE = re.compile(r"\b(?:[LG]\[[^\]]*\]|[A-Za-z_]\w*(?=[.\[]))(?P<reached>(?:\.\w+|\[[^\]]*\])*)")
"""Matches the subject of a guard: a variable, plain or in the local or global scope, and an attribute or item path from
it.
"""
NUMBER = re.compile(r"\b\d+(?:\.\d+)?\b")
VALUE = re.compile(r" == (.+?)(?:\s+#.*)?$", re.MULTILINE)
"""The value that a guard expects."""
QUOTED, TYPES = re.compile(r"`[^`]*`|'[^']*'"), re.compile(r"with argument types .*")


def causes_of(kind: Kind, broken: Sequence[Break], recompiled: Sequence[Recompile], name: str = "") -> list[Cause]:
    """The causes of findings of this kind, the costliest first; ``name``: of the script."""
    health = Health(broken=[*broken], recompiled=[*recompiled])
    passes = {(one.stack[-1].file, one.stack[-1].line): one.passes for one in broken if one.stack}
    found = [cause for cause in causes(health, "", name) if cause.finding.kind == FINDINGS[kind]]
    if kind is not Kind.GRAPH_BREAK:
        return found

    def cost(cause: Cause) -> int:
        return passes.get((cause.place.file, cause.place.line), 0) if cause.place is not None else 0

    return sorted(found, key=cost, reverse=True)  # stable: the first of equal ones


def figures_of(kind: Kind, health: Health, name: str, crowding: float) -> list[Cause]:
    """The causes of findings of this kind in a timed run of the script ``name``; the costliest first."""
    return [cause for cause in causes(health, "", name, crowding) if cause.finding.kind == FINDINGS[kind]]


def trait(cause: Cause) -> str:
    """The trait that two causes of one kind share to count as the same.

    The reason of a break, or the type of the failing guard, without names and sizes.
    """
    if cause.finding.kind == "graph_breaks":
        return _reason(cause)
    changing = cause.changing
    guard = changing.guards[0] if changing is not None else ""
    if tensor := TENSOR.search(guard):
        return f"{tensor['what']} of a tensor"
    if changing is not None and changing.kind != "value":
        source = SOURCE.match(changing.subject)
        return f"{changing.kind} of {_reached(source) if source is not None else 'a variable'}"
    return f"{NUMBER.sub('#', SOURCE.sub(_reached, guard))} is another {_type(cause.said)}"


def first_line(cause: Cause) -> str:
    """The first line of Dynamo's message, which names the type of break."""
    return (cause.said.splitlines() or [""])[0].strip()


def _reason(cause: Cause) -> str:
    if not cause.why.startswith(UNKNOWN):
        return cause.why
    explanation = EXPLANATION.search(cause.said)
    said = QUOTED.sub("#", TYPES.sub("", explanation[1])) if explanation else ""
    return re.sub(r"\d+", "#", f"{first_line(cause)}: {said}")


def _reached(source: re.Match[str]) -> str:
    """An attribute, an item or a variable, independent of its name."""
    reached = source["reached"]
    return "a variable" if not reached else "an item" if reached.endswith("]") else "an attribute"


def _type(said: str) -> str:
    """The type of the value that a guard expects, if it is a literal."""
    value = VALUE.search(said)
    try:
        return type(ast.literal_eval(value[1])).__name__ if value is not None else "value"
    except (ValueError, SyntaxError):
        return "value"
