"""The finding of reordered logs: lines that the script's own setting moves after the graph in which they were printed."""

from __future__ import annotations

import ast
import re

from minimizer.report.culprit import Source
from minimizer.report.examined import Checked
from minimizer.report.excused import excused
from minimizer.report.finding import Finding

SETTING = "reorderable_logging_functions"
RULE = excused("exact_reordered").rule
LINE = re.compile(r"printed text\[(\d+)\]")


def finding(checked: Checked, script: str, name: str) -> Finding | None:
    """The finding for the script ``name`` with this text, from the excuses of its exact runs.

    None if they saw no reordering.
    """
    seen = [one.object for one in checked.excused if one.rule == RULE]
    if not seen:
        return None
    first = min((int(found[1]) for path in seen for found in LINE.finditer(path)), default=None)
    where = f" from line {first + 1} of its output on" if first is not None else ""
    what = (
        f"With the compiler the script prints the same lines in another order{where}: `{SETTING}` lets them wait for the end of the graph. "
        "Without that setting they come in eager's order, and break the graph."
    )
    return Finding(kind="logs_reordered", what=what, source=_where_set(script, name))


def _where_set(script: str, name: str) -> Source | None:
    """The first line of the script that changes the setting."""
    try:
        tree = ast.parse(script)
    except (SyntaxError, ValueError):
        return None
    lines = (node.lineno for node in ast.walk(tree) if isinstance(node, ast.Attribute) and node.attr == SETTING)
    first = min(lines, default=0)
    return Source(file=name, line=first, code=script.splitlines()[first - 1].strip()) if first else None
