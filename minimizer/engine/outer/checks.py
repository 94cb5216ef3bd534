"""Finds the events of a program that a failing check of the script's own reads; a fault elsewhere is another one."""

from __future__ import annotations

import ast

from minimizer.engine.child.outcome import ExceptionInfo
from minimizer.engine.outer.program import BACKWARD, GRAPH, OuterProgram
from minimizer.engine.outer.slices import behind_looks
from minimizer.engine.survey.readings import located


def read_by_check(program: OuterProgram, script: str, name: str, error: ExceptionInfo) -> frozenset[int]:
    """The events that produce the values read by a failing check; if it reads none, those of all values that the script
    reads.

    Args:
        program: the calls around the graphs.
        script: the text of the script.
        name: the name of its file.
        error: the exception of the check.
    """
    for lines in (lines_of_check(script, name, error), None):
        found = behind_looks(program, lines)
        if any(program.events[index].kind in (GRAPH, BACKWARD) for index in found):
            return frozenset(found)
    return frozenset()


def lines_of_check(script: str, name: str, error: ExceptionInfo) -> set[tuple[str, int]]:
    """The lines, with their file, on which a check reads its operands: its own, and those of the conditions around a
    ``raise``.
    """
    if error.source is None:
        return set()
    file, number, _ = error.source
    if file != name:
        return {(file, number)}
    tree, checks = located(script, error)
    inner = [node for node in ast.walk(tree) if isinstance(node, ast.stmt) and number in _lines(node)]
    simple = [node for node in inner if not hasattr(node, "body")]
    nodes = [*simple, *(test for check in checks for test in check.tests)]
    return {(name, number), *((name, line) for node in nodes for line in _lines(node))}


def _lines(node: ast.AST) -> range:
    first = getattr(node, "lineno", 0)
    return range(first, (getattr(node, "end_lineno", None) or first) + 1)
