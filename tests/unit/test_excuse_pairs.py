"""A planted fault and a healthy program behind each entry of the registry of excuses, somewhere in the tests."""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterator

from checkout import ROOT

from minimizer.excuses import EXCUSES

SCRIPTS = ROOT / "tests" / "quality" / "excuses"


@functools.cache
def marked() -> tuple[set[str], set[str]]:
    """The rules with a planted fault, and those with a healthy program, by marks, tables and scripts."""
    faults, healthy = set[str](), set[str]()
    for path in (ROOT / "tests").rglob("test_*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            rules = set(_table(node))
            faults |= rules | set(_marks(node, "fault_behind"))
            healthy |= rules | set(_marks(node, "needs_excuse"))
    for script in SCRIPTS.glob("*.py"):
        rule, _, side = script.stem.rpartition("_")
        {"fault": faults, "healthy": healthy}[side].add(rule)
    return faults, healthy


def _table(node: ast.AST) -> Iterator[str]:
    """The keys of a table of pairs."""
    if not isinstance(node, ast.AnnAssign) or not isinstance(node.target, ast.Name):
        return
    if node.target.id == "EXCUSE_PAIRS" and isinstance(node.value, ast.Dict):
        yield from (key.value for key in node.value.keys if isinstance(key, ast.Constant))


def _marks(node: ast.AST, mark: str) -> Iterator[str]:
    """The rules that ``pytest.mark.MARK(...)`` names."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == mark:
        yield from (arg.value for arg in node.args if isinstance(arg, ast.Constant))


def test_every_rule_has_a_fault_behind_it_and_a_program_that_needs_it() -> None:
    faults, healthy = marked()
    without = {rule for rule in EXCUSES if rule not in faults or rule not in healthy}
    assert not without, "no planted fault that it must not hide, or no healthy program that needs it"


def test_pairs_name_rules_of_the_registry() -> None:
    faults, healthy = marked()
    assert not (faults | healthy) - {*EXCUSES}
